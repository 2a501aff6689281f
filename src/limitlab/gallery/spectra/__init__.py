"""Inputs with structure: spectra, random features, power laws."""
