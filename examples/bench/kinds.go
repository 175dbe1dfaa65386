package main

import (
	"fmt"
	"strings"

	"github.com/workloadkit/workloadkit/testing/bench"
)

// kind is one of those that can be measured. Each is described in a file of its own and listed in kinds.
type kind struct {
	bench.Workload

	about string
}

func kinds() []kind { return []kind{cloneSet(), fleets()} }

func kindChoices() (out []bench.Choice) {
	for _, k := range kinds() {
		out = append(out, bench.Choice{Name: k.Name, About: k.about})
	}
	return out
}

// workload finds a kind by the value of --workload.
func workload(name string) (bench.Workload, error) {
	var names []string
	for _, k := range kinds() {
		if k.Name == name {
			return k.Workload, nil
		}
		names = append(names, k.Name)
	}
	return bench.Workload{}, fmt.Errorf("--workload %q: want one of %s", name, strings.Join(names, ", "))
}
