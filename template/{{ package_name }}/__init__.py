"""The parts that train.py, evaluate.py and predict.py are made of."""
