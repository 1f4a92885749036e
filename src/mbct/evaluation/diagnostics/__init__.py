"""What the displays and the report draw, computed apart from any drawing."""
