// Package admissiontest sends reviews to webhook handlers as an API server does, for tests of a kind's admission.
//
// The tests of a kind serve its endpoint and send reviews of objects that differ from a small valid object:
//
//	options := admission.Options{}
//	server := admissiontest.Server(admission.Handlers(options, cloneset.Row().Admission(options)))
//	small := admissiontest.Load(t, "testdata/small.yaml", "v1alpha1", "  replicas: -1")
//	got := admissiontest.Answered(server.Validate(t, small, nil))
//
// The small object is the kind's file testdata/small.yaml. Objects are decoded JSON, because admission must keep fields
// that the Go types do not have. Every function fails the test if a response is malformed.
package admissiontest
