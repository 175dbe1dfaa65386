package apps

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mostListed is the largest number of kinds that are read from a list. The number needs a limit, because each kind
// costs a watch.
const mostListed = 100

// ParseListed parses the list of kinds under a key of the ConfigMap [ConfigurationName], for example
// {"workloads":[{"Group":"game.io","Version":"v1","Kind":"GameServerSet"}]}. An empty text lists no kinds. kindOf
// returns the kind of an entry. If a kind has several entries, in any versions, only the first entry counts. Entries
// for which known returns true are left out. Entries without a version or kind, and entries after the first mostListed,
// lead to an error. The valid entries are returned together with the error.
func ParseListed[E any](key, text string, kindOf func(E) schema.GroupVersionKind,
	known func(schema.GroupKind) bool,
) (entries []E, err error) {
	if text == "" {
		return nil, nil
	}
	var read struct {
		Workloads []E `json:"workloads"`
	}
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return nil, fmt.Errorf("%s is no list of kinds: %w", key, err)
	}
	seen := map[schema.GroupKind]bool{}
	for i, entry := range read.Workloads {
		kind := kindOf(entry)
		switch {
		case kind.Kind == "" || kind.Version == "":
			err = fmt.Errorf("%s: workloads[%d] needs a Version and a Kind", key, i)
		case known(kind.GroupKind()) || seen[kind.GroupKind()]:
		case len(entries) == mostListed:
			return entries, fmt.Errorf("%s: only %d kinds are read", key, mostListed)
		default:
			seen[kind.GroupKind()] = true
			entries = append(entries, entry)
		}
	}
	return entries, err
}
