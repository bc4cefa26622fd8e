"""The parts that train.py and predict.py are made of."""
