"""Programs that images of the local node stand for; each is one file, standard library only."""
