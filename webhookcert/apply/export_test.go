package apply

// SetHost replaces Options.Host by one that New refuses. It must be called before Start.
func (k *Keeper) SetHost(host string) { k.options.Host = host }
