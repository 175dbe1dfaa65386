package inplaceupdate

import "maps"

// put sets a key of a map that may be nil.
func put[M ~map[K]V, K comparable, V any](m *M, key K, value V) {
	if *m == nil {
		*m = make(M)
	}
	(*m)[key] = value
}

// united returns the entries of both maps, those of b where both have one. Neither is modified; the result may be one of them.
func united[M ~map[K]V, K comparable, V any](a, b M) M {
	if len(a) == 0 {
		return b
	}
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
