package apps

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mostListed is how many kinds of a list are used. The number needs a limit, because each kind costs a watch.
const mostListed = 100

// ParseListed reads the kinds listed under a key of the ConfigMap [ConfigurationName], as in
// {"workloads":[{"Group":"game.io","Version":"v1","Kind":"GameServerSet"}]}. An empty text lists no kinds. kindOf
// returns the kind of an entry. Of several entries for a kind, in any versions, the first counts, and entries for
// which known returns true are left out. Entries without a version or kind, and entries after the first hundred, cause
// an error. ParseListed returns the error together with the valid entries.
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
