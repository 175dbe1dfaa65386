package inplaceupdate

import "maps"

// put sets a key of a map. The map may be nil.
func put[M ~map[K]V, K comparable, V any](m *M, key K, value V) {
	if *m == nil {
		*m = make(M)
	}
	(*m)[key] = value
}

// united returns the entries of both maps. The entry of b wins. united modifies neither map, but may return b itself.
func united[M ~map[K]V, K comparable, V any](a, b M) M {
	if len(a) == 0 {
		return b
	}
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
