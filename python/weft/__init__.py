"""weft: the communication of distributed training. weft.torch is torch.distributed's backend."""
