"""The service: POST /classify with texts, GET /health."""

import os
from contextlib import asynccontextmanager

import model as classifier
import settings as configuration
import telemetry
import tickets
import torch
from fastapi import FastAPI
from pydantic import BaseModel, Field

settings = configuration.load()
device = torch.device(settings.device)
state = {}


class Request(BaseModel):
    texts: list[str] = Field(min_length=1, max_length=64)


@asynccontextmanager
async def lifespan(_: FastAPI):
    model = classifier.load(os.environ.get("TICKETS_MODEL", "model.pt"), settings)
    if settings.compile:
        model = torch.compile(model, mode="reduce-overhead")
    state["model"] = model
    yield
    state.clear()


app = FastAPI(title="tickets", lifespan=lifespan)


@app.post("/classify")
def classify(request: Request) -> dict:
    ids = tickets.encode(request.texts, settings.length).to(device)
    with torch.inference_mode(), torch.autocast("cuda", enabled=False):
        scores = state["model"](ids).softmax(dim=1)
    torch.cuda.synchronize()
    best = scores.max(dim=1)
    labels = [tickets.LABELS[i] for i in best.indices.tolist()]
    return {"labels": labels, "scores": best.values.tolist()}


@app.get("/health")
def health() -> dict:
    answer = {"status": "ok", "device": device.type, "power": telemetry.power_watts()}
    if device.type == "cuda":
        answer["gpu"] = torch.cuda.get_device_name(device)
    return answer
