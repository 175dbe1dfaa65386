package conversion_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const podStateAlpha = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"PersistentPodState","metadata":{"name":"keep","annotations":{"keys":"a"}},
	"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db"},"unknown":12345678901234567890,"persistentPodAnnotations":[{"key":"keys"}],
		"requiredPersistentTopology":{"nodeTopologyKeys":["zone"]},
		"preferredPersistentTopology":[{"weight":100,"preference":{"nodeTopologyKeys":["host","rack"]}},{"weight":1,"preference":{"nodeTopologyKeys":[]}}]},
	"status":{"observedGeneration":1,"podStates":{"keys":{"nodeName":"n1","nodeTopologyLabels":{"keys":"v"}}}}}`

const podStateBeta = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"PersistentPodState","metadata":{"name":"keep","annotations":{"keys":"a"}},
	"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db"},"unknown":12345678901234567890,"persistentPodAnnotations":[{"key":"keys"}],
		"requiredPersistentTopology":{"keys":["zone"]},
		"preferredPersistentTopology":[{"weight":100,"preference":{"keys":["host","rack"]}},{"weight":1,"preference":{"keys":[]}}]},
	"status":{"observedGeneration":1,"podStates":{"keys":{"nodeName":"n1","nodeTopologyLabels":{"keys":"v"}}}}}`

// TestPersistentPodStateRenames: conversion renames the lists of keys, whose names differ between the versions, and
// changes nothing else.
func TestPersistentPodStateRenames(t *testing.T) {
	for _, c := range []struct{ name, from, version, want string }{
		{"PS to v1beta1", podStateAlpha, "v1beta1", podStateBeta},
		{"PS to v1alpha1", podStateBeta, "v1alpha1", podStateAlpha},
		{
			"PS what has no sense is carried over",
			`{"apiVersion":"apps.kruise.io/v1beta1","kind":"PersistentPodState","metadata":{},"spec":{"requiredPersistentTopology":7,"preferredPersistentTopology":[null,5,{"preference":{"keys":"x"},"weight":0}]}}`,
			"v1alpha1",
			`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"PersistentPodState","metadata":{},"spec":{"requiredPersistentTopology":7,"preferredPersistentTopology":[null,5,{"preference":{"nodeTopologyKeys":"x"},"weight":0}]}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := conversion.JSON([]byte(c.from), "apps.kruise.io/"+c.version)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(treeOf(t, []byte(c.want)), treeOf(t, got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if problems := conversion.Check([]byte(c.from)); len(problems) > 0 {
				t.Errorf("Check: %v", problems)
			}
		})
	}
}

func checkPodState(t *testing.T, data []byte) {
	t.Helper()
	beta, alpha := &v1beta1.PersistentPodState{}, &v1alpha1.PersistentPodState{}
	beta.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("PersistentPodState"))
	alpha.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PersistentPodState"))
	f := &filler{data}
	f.object(&beta.ObjectMeta, &beta.Spec, &beta.Status)
	f.object(&alpha.ObjectMeta, &alpha.Spec, &alpha.Status)
	beta.Spec.Undecodable = nil
	checkBothWays(t, beta, alpha, to[v1alpha1.PersistentPodState, v1beta1.PersistentPodState], to[v1beta1.PersistentPodState, v1alpha1.PersistentPodState])
}

func FuzzPersistentPodStateRoundTrip(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, data []byte) { checkPodState(t, data) })
}

// TestPersistentPodStateRoundTrips checks a fixed set of random objects in every run; the fuzz test checks further
// objects.
func TestPersistentPodStateRoundTrips(t *testing.T) {
	repeat(t, 9, checkPodState)
}
