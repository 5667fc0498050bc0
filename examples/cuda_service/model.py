"""The classifier: embeddings, one convolution over words, a maximum over time."""

import torch
from tickets import LABELS, PADDING, VOCABULARY
from torch import nn


class TicketClassifier(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width, padding_idx=PADDING)
        self.convolution = nn.Conv1d(width, width, kernel_size=3, padding=1)
        self.head = nn.Linear(width, len(LABELS))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits [tickets, labels] of word ids [tickets, length]."""
        words = self.embedding(ids).transpose(1, 2)
        return self.head(torch.relu(self.convolution(words)).amax(dim=2))


def load(path, settings):
    """The trained model, on the GPU."""
    model = TicketClassifier(settings.width)
    model.load_state_dict(torch.load(path))
    return model.cuda().eval()
