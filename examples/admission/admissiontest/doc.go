// Package admissiontest asks webhook handlers as an API server does, for tests of a kind's admission.
//
// A room of a kind serves its endpoint and asks about objects that differ from a small valid object:
//
//	options := admission.Options{}
//	server := admissiontest.Server(admission.Handlers(options, cloneset.Row().Admission(options)))
//	small := admissiontest.Load(t, "testdata/small.yaml", "v1alpha1", "  replicas: -1")
//	got := admissiontest.Answered(server.Validate(t, small, nil))
//
// The small object lies in the room, as testdata/small.yaml. Objects are decoded JSON, because admission has to keep
// fields unknown to Go types. Every function ends the test if an answer is not in order.
package admissiontest
