"""Export of the monthly cost as FOCUS rows (FinOps Open Cost and Usage Specification 1.2), for finance tools.

The rows are a forecast of one month, not a bill: ChargeDescription and Tags say so.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from typing import Any

from torchport.migrate.evaluate.cost import Move, Platform, device_hours
from torchport.migrate.evaluate.plan import Plan, Price, PriceFile
from torchport.migrate.evaluate.prices import find_price
from torchport.migrate.evaluate.value import central_model

COSTS = ("ListCost", "ContractedCost", "EffectiveCost", "BilledCost")  # no discount is modelled: all the same
PRICING_CATEGORY = {"on_demand": "Standard", "owned": "Other", "spot": "Dynamic", "committed": "Committed"}


def rows(plan: Plan, prices: PriceFile, decision: dict[str, Any], month: date) -> list[dict[str, Any]]:
    """Device use, commitment, fixed cost, operation and energy of each platform at the most likely figures."""
    stage = decision["stages"][decision["stage"]]
    capacities = [decision["baseline"]["usable_per_device_hour"], stage["figures"]["usable_per_device_hour"]]
    if None in capacities:
        return []
    old, new, move = central_model(plan, prices, capacities[0]["estimate"], capacities[1]["estimate"], stage["hours"])
    found = []
    for side, platform, cost in (("baseline", old, plan.cost.baseline), ("target", new, plan.cost.target)):
        price = find_price(prices, cost.price, f"cost.{side}")
        found += _platform(side, platform, move, price, plan, decision, month)
    return found


def _platform(
    side: str, platform: Platform, move: Move, price: Price, plan: Plan, decision: dict[str, Any], month: date
) -> list[dict[str, Any]]:
    hours = float(device_hours(platform, move.volume, move.hours_per_month))
    committed = float(platform.committed_devices * move.hours_per_month)
    operations = platform.operations_hours * move.day_rate / move.hours_per_day
    parts = [
        ("devices", max(hours - committed, 0.0), "Device-Hours", platform.price, price.purchase),
        ("committed devices", committed, "Device-Hours", platform.committed_price, "committed"),
        ("host, storage, egress, support", 1.0, "Months", platform.fixed, "on_demand"),
        ("operation", platform.operations_hours, "Hours", operations / (platform.operations_hours or 1), "owned"),
        ("energy", 1.0, "Months", platform.energy, "on_demand"),
    ]
    tags = json.dumps(
        {"kind": "forecast", "decision": decision["evidence_head"][:16], "price_seen": price.seen.isoformat()}
    )
    start = month.replace(day=1)
    end = date(start.year + start.month // 12, start.month % 12 + 1, 1)
    return [
        {
            "BillingAccountId": plan.workload.name,
            "BillingAccountName": plan.workload.name,
            "BillingCurrency": plan.evaluation.currency,
            "BillingPeriodStart": f"{start.isoformat()}T00:00:00Z",
            "BillingPeriodEnd": f"{end.isoformat()}T00:00:00Z",
            "ChargePeriodStart": f"{start.isoformat()}T00:00:00Z",
            "ChargePeriodEnd": f"{end.isoformat()}T00:00:00Z",
            "ChargeCategory": "Usage",
            "ChargeClass": "",
            "ChargeDescription": f"Forecast for the {side}: {what}",
            "ChargeFrequency": "Usage-Based" if "evice" in what else "Recurring",
            "ServiceCategory": "AI and Machine Learning",
            "ServiceName": plan.workload.name,
            "ProviderName": price.provider,
            "PublisherName": price.provider,
            "InvoiceIssuerName": price.provider,
            "RegionId": price.region,
            "SkuId": price.sku,
            "SkuPriceId": price.id,
            "PricingCategory": PRICING_CATEGORY[purchase],
            "PricingQuantity": quantity,
            "PricingUnit": unit,
            "ConsumedQuantity": quantity,
            "ConsumedUnit": unit,
            "ListUnitPrice": unit_price,
            "ContractedUnitPrice": unit_price,
            **dict.fromkeys(COSTS, round(quantity * unit_price, 2)),
            "Tags": tags,
        }
        for what, quantity, unit, unit_price, purchase in parts
        if quantity * unit_price
    ]  # fmt: skip


def to_csv(found: list[dict[str, Any]]) -> str:
    """CSV with a header line."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(found[0]) if found else ["BilledCost"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return buffer.getvalue()
