"""The parts that the scripts are made of."""
