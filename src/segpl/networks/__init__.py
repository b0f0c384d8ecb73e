"""The networks: theta (a U-Net) and phi (the threshold's posterior), and their compilation."""
