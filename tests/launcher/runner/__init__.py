"""What run-cases is made of: see case.py first."""
