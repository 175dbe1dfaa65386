package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/testing/bench"
)

// measured is a kind that the bench can measure.
type measured struct {
	bench.Workload

	about string
}

// all returns the kinds that the bench command can measure: kinds of OpenKruise, with any manager that runs their
// controllers, and the kind Fleet of examples/embed.
func all() []measured {
	var out []measured
	for _, k := range kinds.Measured() {
		w := bench.Workload{
			Name: k.Name(), PerNode: k.Sample.PerNode, AddToScheme: k.AddToScheme, Install: config.InstallCRDs, List: k.Sample.List, Settled: k.Sample.Settled,
			Object: func(s bench.Shape) client.Object { return k.Sample.Object(shapeOf(s)) },
		}
		if k.Sample.Pod != nil {
			w.Pod = func(s bench.Shape) (*corev1.Pod, error) { return k.Sample.Pod(shapeOf(s)) }
		}
		out = append(out, measured{about: k.Kind.Kind + " of " + k.Kind.Group, Workload: w})
	}
	return append(out, fleets())
}

func shapeOf(s bench.Shape) kind.Shape {
	return kind.Shape{
		Namespace: bench.Namespace, Name: s.Name, Replicas: int32(s.Pods), Selector: s.Selector(), Template: s.Template, MaxUnavailable: s.MaxUnavailable,
	}
}

func kindChoices() (out []bench.Choice) {
	for _, k := range all() {
		out = append(out, bench.Choice{Name: k.Name, About: k.about})
	}
	return out
}

// workload returns the kind with the name in the flag --workload.
func workload(name string) (bench.Workload, error) {
	var names []string
	for _, k := range all() {
		if k.Name == name {
			return k.Workload, nil
		}
		names = append(names, k.Name)
	}
	return bench.Workload{}, fmt.Errorf("--workload %q: want one of %s", name, strings.Join(names, ", "))
}
