#!/usr/bin/env bash
# Builds the image, trains inside it, serves.
set -euo pipefail
export CUDA_VISIBLE_DEVICES=0
nvidia-smi
docker build -t tickets .
docker run --rm --gpus all -v "$PWD:/service" tickets python3 train.py --out model.pt
docker run --rm --gpus all -v "$PWD:/service" --network host tickets
