NOTEBOOKS=[]
executed=is_fresh=write=None
