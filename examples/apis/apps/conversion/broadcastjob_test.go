package conversion_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// TestBroadcastJobJSON: conversion changes only the version, even if values are invalid.
func TestBroadcastJobJSON(t *testing.T) {
	const object = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"BroadcastJob","metadata":{"name":"a","annotations":{"workloadkit.io/v1beta1-only":"x"}},
		"spec":{"template":{"spec":{"containers":7}},"parallelism":123456789012345678901234567890,"unknown":true},"status":{"startTime":7}}`
	want := treeOf(t, []byte(object))
	for _, version := range []string{"apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1"} {
		got, err := conversion.JSON([]byte(object), version)
		if err != nil {
			t.Fatal(err)
		}
		want["apiVersion"] = version
		if diff := cmp.Diff(want, treeOf(t, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		if problems := conversion.Check(got); len(problems) > 0 {
			t.Errorf("%s: Check: %v", version, problems)
		}
	}
}

func TestBroadcastJobRoundTrips(t *testing.T) {
	random, data := rand.NewChaCha8([32]byte{8}), make([]byte, 400)
	for range 100 {
		if _, err := random.Read(data); err != nil {
			t.Fatal(err)
		}
		beta := &v1beta1.BroadcastJob{}
		beta.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("BroadcastJob"))
		(&filler{data}).object(&beta.ObjectMeta, &beta.Spec, &beta.Status)
		alpha, err := to[v1alpha1.BroadcastJob](beta)
		if err != nil || alpha.APIVersion != "apps.kruise.io/v1alpha1" {
			t.Fatal(alpha, err)
		}
		back, err := to[v1beta1.BroadcastJob](alpha)
		if diff := cmp.Diff(beta, back, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Fatalf("(-want +got): %v\n%s", err, diff)
		}
	}
}
