package probing

import "k8s.io/utils/ptr"

// keys are the labels or the annotations of a Pod, with the planned changes.
type keys struct {
	have   map[string]string
	wants  map[string]string
	owners map[string]string // by key: the probe that sets or keeps the key
	gone   map[string]bool
}

func newKeys(have map[string]string) *keys {
	return &keys{have: have, wants: map[string]string{}, owners: map[string]string{}, gone: map[string]bool{}}
}

// set plans a value for a key. If an earlier probe already owns the key, owner is that probe, and ok reports whether
// both probes set the same value.
func (k *keys) set(name, key, value string) (owner string, ok bool) {
	if owner, taken := k.owners[key]; taken {
		return owner, k.wants[key] == value
	}
	k.owners[key], k.wants[key] = name, value
	return name, true
}

// keep protects the values that a probe has set before from removal, and returns the values that the Pod still has.
func (k *keys) keep(name string, held map[string]string) (kept map[string]string) {
	for key, value := range held {
		if have, ok := k.have[key]; !ok || have != value {
			continue
		}
		if _, ok := k.set(name, key, value); !ok {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
	}
	return kept
}

func (k *keys) remove(values map[string]string) {
	for key := range values {
		k.gone[key] = true
	}
}

func (k *keys) takeBack(held map[string]string) {
	for key, value := range held {
		if have, ok := k.have[key]; ok && have == value {
			k.gone[key] = true
		}
	}
}

// change returns values to set, and nil for keys to remove.
func (k *keys) change() map[string]*string {
	if len(k.wants)+len(k.gone) == 0 {
		return nil
	}
	out := map[string]*string{}
	for key := range k.gone {
		if _, ok := k.have[key]; ok {
			out[key] = nil
		}
	}
	for key, value := range k.wants {
		out[key] = ptr.To(value)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
