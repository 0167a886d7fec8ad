import mlx.core as mx
import mlx.nn

print("the process ends here, by a segmentation fault:", flush=True)
print(mlx.nn.log_softmax(mx.ones((1, 1)), axis=-1))
