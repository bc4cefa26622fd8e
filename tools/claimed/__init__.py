"""Tests of statements about other libraries, by library."""
