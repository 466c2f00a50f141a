"""A small GPT, as the examples and benchmarks train it. Run alone, it prints its size and a loss."""

import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)])
        self.qkv, self.proj = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(attention.transpose(1, 2).reshape(b, s, w))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class GPT(torch.nn.Module):
    def __init__(self, width, layers, heads, context):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(256, width), torch.nn.Embedding(context, width)
        self.blocks = torch.nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = torch.nn.Linear(width, 256)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.blocks(x))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = GPT(64, 2, 4, 32)
    tokens = torch.randint(0, 256, (2, 33))
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    print(f"{sum(p.numel() for p in model.parameters())} parameters, loss {loss.item():.3f}")
