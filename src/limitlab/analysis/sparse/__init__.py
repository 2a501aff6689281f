"""What is easy to learn about a sparse target?"""
