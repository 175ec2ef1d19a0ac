"""What runs on a node. It knows which collectors there are and what becomes of what they see."""
