package conversion_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const spreadAlpha = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"WorkloadSpread","metadata":{"name":"zones"},
	"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"unknown":12345678901234567890,
		"subsets":[{"name":"a","maxReplicas":"30%","requiredNodeSelectorTerm":{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]},
				"patch":{"requiredNodeSelectorTerm":{"x":[1]}}},
			{"name":"b","preferredNodeSelectorTerms":[{"weight":1,"preference":{}}],"tolerations":[{"operator":"Exists"}]}]},
	"status":{"observedGeneration":1,
		"subsetStatuses":[{"name":"a","replicas":1,"missingReplicas":0,"conditions":[{"type":"Schedulable","status":"True","reason":"Sufficient","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}],
		"versionedSubsetStatuses":{"conditions":[{"name":"a","replicas":1,"missingReplicas":-1,"creatingPods":{"reason":"2026-01-01T00:00:00Z"}}]}}}`

const spreadBeta = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"WorkloadSpread","metadata":{"name":"zones"},
	"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"unknown":12345678901234567890,
		"subsets":[{"name":"a","maxReplicas":"30%","requiredNodeSelector":{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]},
				"patch":{"requiredNodeSelectorTerm":{"x":[1]}}},
			{"name":"b","preferredNodeSelector":[{"weight":1,"preference":{}}],"tolerations":[{"operator":"Exists"}]}]},
	"status":{"observedGeneration":1,
		"subsetStatuses":[{"name":"a","replicas":1,"missingReplicas":0,"conditions":[{"type":"Schedulable","status":"True","reason":"Sufficient","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}],
		"versionedSubsetStatuses":{"conditions":[{"name":"a","replicas":1,"missingReplicas":-1,"creatingPods":{"reason":"2026-01-01T00:00:00Z"}}]}}}`

// TestWorkloadSpreadDifferences: conversion renames two fields of subsets, completes conditions, and changes nothing
// else.
func TestWorkloadSpreadDifferences(t *testing.T) {
	const head = `{"apiVersion":"apps.kruise.io/`
	for _, c := range []struct{ name, from, version, want string }{
		{"WS 1.1 to v1beta1", spreadAlpha, "v1beta1", spreadBeta},
		{"WS 1.1 to v1alpha1", spreadBeta, "v1alpha1", spreadAlpha},
		{
			"WS 1.1 conditions of v1beta1 have all of their fields",
			head + `v1alpha1","kind":"WorkloadSpread","metadata":{},"spec":{},"status":{
				"subsetStatuses":[{"conditions":[{"type":"Schedulable","status":"False","lastTransitionTime":null,"reason":""}]}],
				"versionedSubsetStatuses":{"v1":[{"conditions":[{"type":"Schedulable","status":"True","reason":"R"}]}],"v2":null}}}`,
			"v1beta1",
			head + `v1beta1","kind":"WorkloadSpread","metadata":{},"spec":{},"status":{
				"subsetStatuses":[{"conditions":[{"type":"Schedulable","status":"False","lastTransitionTime":"1970-01-01T00:00:00Z","reason":"Unknown","message":""}]}],
				"versionedSubsetStatuses":{"v1":[{"conditions":[{"type":"Schedulable","status":"True","lastTransitionTime":"1970-01-01T00:00:00Z","reason":"R","message":""}]}],"v2":null}}}`,
		},
		{
			"WS 1.1 conditions of v1alpha1 have no generation",
			head + `v1beta1","kind":"WorkloadSpread","metadata":{},"spec":{},"status":{
				"subsetStatuses":[{"conditions":[{"type":"Schedulable","observedGeneration":3}]}],"versionedSubsetStatuses":{"v1":[{"conditions":[{"observedGeneration":3}]}]}}}`,
			"v1alpha1",
			head + `v1alpha1","kind":"WorkloadSpread","metadata":{},"spec":{},"status":{
				"subsetStatuses":[{"conditions":[{"type":"Schedulable"}]}],"versionedSubsetStatuses":{"v1":[{"conditions":[{}]}]}}}`,
		},
		{
			"WS 1.1 what has no sense is carried over",
			head + `v1beta1","kind":"WorkloadSpread","metadata":{},"spec":{"subsets":[null,7,{"requiredNodeSelector":"x"}]},"status":{"subsetStatuses":7,"versionedSubsetStatuses":[1]}}`,
			"v1alpha1",
			head + `v1alpha1","kind":"WorkloadSpread","metadata":{},"spec":{"subsets":[null,7,{"requiredNodeSelectorTerm":"x"}]},"status":{"subsetStatuses":7,"versionedSubsetStatuses":[1]}}`,
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

func checkSpread(t *testing.T, data []byte) {
	t.Helper()
	beta, alpha := &v1beta1.WorkloadSpread{}, &v1alpha1.WorkloadSpread{}
	beta.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("WorkloadSpread"))
	alpha.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("WorkloadSpread"))
	f := &filler{data}
	f.object(&beta.ObjectMeta, &beta.Spec, &beta.Status)
	f.object(&alpha.ObjectMeta, &alpha.Spec, &alpha.Status)
	beta.Spec.Undecodable = nil
	lists := [][]v1beta1.WorkloadSpreadSubsetStatus{beta.Status.SubsetStatuses}
	for _, list := range beta.Status.VersionedSubsetStatuses {
		lists = append(lists, list)
	}
	for _, s := range slices.Concat(lists...) {
		for i := range s.Conditions { // the values must be valid in v1beta1, and must exist in v1alpha1
			s.Conditions[i].Reason, s.Conditions[i].ObservedGeneration = "R", 0
			s.Conditions[i].LastTransitionTime = metav1.NewTime(time.Unix(int64(i+1), 0))
		}
	}
	olds := [][]v1alpha1.WorkloadSpreadSubsetStatus{alpha.Status.SubsetStatuses}
	for _, list := range alpha.Status.VersionedSubsetStatuses {
		olds = append(olds, list)
	}
	for _, s := range slices.Concat(olds...) {
		for i := range s.Conditions {
			s.Conditions[i].Reason, s.Conditions[i].LastTransitionTime = "R", metav1.NewTime(time.Unix(int64(i+1), 0))
		}
	}
	checkBothWays(t, beta, alpha, to[v1alpha1.WorkloadSpread, v1beta1.WorkloadSpread], to[v1beta1.WorkloadSpread, v1alpha1.WorkloadSpread])
}

func FuzzWorkloadSpreadRoundTrip(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, data []byte) { checkSpread(t, data) })
}

// TestWorkloadSpreadRoundTrips checks a fixed set of random objects in every run; the fuzz test checks further
// objects.
func TestWorkloadSpreadRoundTrips(t *testing.T) {
	repeat(t, 11, checkSpread)
}
