"""Trains once, then asks the service. TICKETS_DEVICE says where."""

import dataclasses

import pytest
import settings as configuration
import torch
from fastapi.testclient import TestClient

from train import train


@pytest.fixture(scope="session")
def outcome(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.pt"
    return {"path": path, **train(configuration.load(), path)}


@pytest.fixture
def client(outcome, monkeypatch):
    monkeypatch.setenv("TICKETS_MODEL", str(outcome["path"]))
    from service import app

    with TestClient(app) as client:
        yield client


def test_training_runs_where_it_was_asked_to(outcome):
    assert outcome["device"] == configuration.load().device


def test_training_learns(outcome):
    assert outcome["accuracy"] >= 0.9
    assert outcome["loss"] < 0.2


def test_weights_load_anywhere(outcome):
    weights = torch.load(outcome["path"], map_location="cpu")
    assert all(value.device.type == "cpu" for value in weights.values())


def test_classify(client):
    texts = [
        "I was charged twice for the annual plan",
        "The parcel was lost by the courier",
        "The app crashes after the update",
    ]
    answer = client.post("/classify", json={"texts": texts}).json()
    assert answer["labels"] == ["billing", "delivery", "technical"]
    assert all(1 / 3 < score <= 1 for score in answer["scores"])


def test_refuses_no_texts(client):
    assert client.post("/classify", json={"texts": []}).status_code == 422


def test_health(client):
    assert client.get("/health").json()["device"] == configuration.load().device


def test_unknown_settings_are_named(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text((configuration.ROOT / "config.yaml").read_text() + "colour: red\n")
    with pytest.raises(TypeError, match="colour"):
        configuration.load(path)
    assert "colour" not in {field.name for field in dataclasses.fields(configuration.Settings)}
