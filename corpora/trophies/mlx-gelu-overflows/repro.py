import mlx.core as mx
import mlx.nn

print("got  ", mlx.nn.gelu(mx.array([2e38])).tolist())
print("right", [1.9999999603690427e38])
