"""How long until a saddle is left?"""
