package admission_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
)

const (
	mutatePath   = "/mutate-apps-kruise-io-cloneset"
	validatePath = "/validate-apps-kruise-io-cloneset"
)

type tree = admissiontest.Tree

// handlersOf returns all handlers, for all kinds.
func handlersOf(options admission.Options) admissiontest.Server {
	return admission.Handlers(options, append(kind.Endpoints(kinds.All(), options), admission.Protection(options), admission.Agents(options))...)
}

// small returns the smallest valid CloneSet in a version, with additional lines of spec.
func small(t testing.TB, version string, more ...string) tree {
	t.Helper()
	return smallOf(t, "CloneSet", version, more...)
}

// smallOf returns the smallest valid object of a kind, from the testdata of the kind.
func smallOf(t testing.TB, kind, version string, more ...string) tree {
	t.Helper()
	return admissiontest.Load(t, "../kinds/"+strings.ToLower(kind)+"/testdata/small.yaml", version, more...)
}

// endpointOf returns the endpoint of a kind.
func endpointOf(name string, options admission.Options) admission.Endpoint {
	rows := kinds.All()
	return rows[slices.IndexFunc(rows, func(r kind.Row) bool { return r.Kind.Kind == name })].Admission(options)
}

// leaves lists every value of a tree by path. Empty maps and lists are leaves.
func leaves(path string, value any, into map[string]any) map[string]any {
	switch value := value.(type) {
	case tree:
		for key := range maps.Keys(value) {
			leaves(path+"/"+key, value[key], into)
		}
		if len(value) > 0 {
			return into
		}
	case []any:
		for i := range value {
			leaves(path+"/"+strconv.Itoa(i), value[i], into)
		}
		if len(value) > 0 {
			return into
		}
	}
	into[path] = value
	return into
}
