package podprobemarker

import (
	"maps"
	"net/http"
	"testing"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

func TestAdmission(t *testing.T) {
	server := admissiontest.Server(admission.Handlers(admission.Options{}, endpoint(admission.Options{})))
	good := admissiontest.Load(t, "testdata/small.yaml", "v1alpha1")
	const probe, invalid = "/spec/probes/0", http.StatusUnprocessableEntity
	type tree = admissiontest.Tree
	edit := func(path string, value any) tree { return admissiontest.Edit(t, good, path, value) }
	handler := func(name string, fields tree) tree { return edit(probe+"/probe", tree{name: fields}) }
	http200 := func(fields tree) tree {
		all := tree{"path": "/", "port": 80, "scheme": "HTTP"}
		maps.Copy(all, fields)
		return handler("httpGet", all)
	}
	two := func(second tree) tree {
		first := tree{"name": "a", "containerName": "db", "podConditionType": "c1", "probe": tree{"tcpSocket": tree{"port": 80}}}
		return edit("/spec/probes", []any{first, second})
	}
	for _, c := range []struct {
		name        string
		object, old tree
		want        int32
	}{
		{"7.1 valid", good, nil, 0},
		{"7.1 an empty selector", edit("/spec/selector", tree{}), nil, invalid},
		{"7.1 the selector is immutable", edit("/spec/selector", tree{"matchLabels": tree{"a": "b"}}), good, invalid},
		{"7.1 no probes", edit("/spec/probes", []any{}), nil, invalid},
		{"7.1 a name with #", edit(probe+"/name", "a#b"), nil, invalid},
		{"7.1 no name", edit(probe+"/name", ""), nil, invalid},
		{"7.1 the name of a condition", edit(probe+"/name", "KruisePodReady"), nil, invalid},
		{"7.1 no container", edit(probe+"/containerName", ""), nil, invalid},
		{"7.1 no handler", edit(probe+"/probe", tree{}), nil, invalid},
		{"7.1 two handlers", edit(probe+"/probe", tree{"exec": tree{"command": []any{"a"}}, "tcpSocket": tree{"port": 80}}), nil, invalid},
		{"7.1 no command", handler("exec", tree{"command": []any{}}), nil, invalid},
		{"7.1 a negative number", edit(probe+"/probe/periodSeconds", -1), nil, invalid},
		{"7.1 http", http200(nil), nil, 0},
		{"7.1 http by the name of a port", http200(tree{"port": "web"}), nil, 0},
		{"7.1 http without path", http200(tree{"path": ""}), nil, invalid},
		{"7.1 http without scheme", http200(tree{"scheme": ""}), nil, invalid},
		{"ND-71 http to a host", http200(tree{"host": "10.0.0.1"}), nil, invalid},
		{"7.1 tcp", handler("tcpSocket", tree{"port": 80}), nil, 0},
		{"7.1 tcp to an impossible port", handler("tcpSocket", tree{"port": 70000}), nil, invalid},
		{"ND-71 tcp to a host", handler("tcpSocket", tree{"port": 80, "host": "db.example.test"}), nil, invalid},
		{"7.1 gRPC, which OpenKruise refuses", handler("grpc", tree{"port": 80}), nil, 0},
		{"7.1 a condition of Kubernetes", edit(probe+"/podConditionType", "Ready"), nil, invalid},
		{"7.1 a condition with a bad name", edit(probe+"/podConditionType", "a b"), nil, invalid},
		{"7.1 policies alone", edit(probe+"/podConditionType", ""), nil, 0},
		{"7.1 an unknown state", edit(probe+"/markerPolicy/0/state", "Unknown"), nil, invalid},
		{"7.1 a state twice", edit(probe+"/markerPolicy/1/state", "Succeeded"), nil, invalid},
		{"7.1 an empty policy", edit(probe+"/markerPolicy/0/labels", tree{}), nil, invalid},
		{"7.1 an invalid label", edit(probe+"/markerPolicy/0/labels", tree{"role": "a b"}), nil, invalid},
		{"7.1 an annotation of the controller", edit(probe+"/markerPolicy/0/annotations", tree{apps.AnnotationProbeMarks: "x"}), nil, invalid},
		{"7.1 a name twice", two(tree{"name": "a", "containerName": "db", "podConditionType": "c2", "probe": tree{"tcpSocket": tree{"port": 80}}}), nil, invalid},
		{"7.1 a condition twice", two(tree{"name": "b", "containerName": "db", "podConditionType": "c1", "probe": tree{"tcpSocket": tree{"port": 80}}}), nil, invalid},
		{"a stored fault", edit(probe+"/containerName", ""), edit(probe+"/containerName", ""), 0},
		{"a wrong type", edit(probe+"/probe/periodSeconds", "often"), nil, invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := server.Validate(t, c.object, c.old); got.Allowed != (c.want == 0) || !got.Allowed && got.Result.Code != c.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestGate: while a feature gate is off, no PodProbeMarker can be created, but the finalizers of stored
// PodProbeMarkers can be removed.
func TestGate(t *testing.T) {
	good := admissiontest.Load(t, "testdata/small.yaml", "v1alpha1")
	for name, gates := range map[string]map[apps.Gate]bool{
		"0.2 PodProbeMarkerGate": {apps.GatePodProbeMarker: false}, "0.2 KruiseDaemon": {apps.GateKruiseDaemon: false},
	} {
		t.Run(name, func(t *testing.T) {
			server := admissiontest.Server(admission.Handlers(admission.Options{Gates: gates}, endpoint(admission.Options{Gates: gates})))
			if got := server.Validate(t, good, nil); got.Allowed || got.Result.Code != http.StatusForbidden {
				t.Errorf("%+v", got)
			}
			if got := server.Validate(t, admissiontest.Edit(t, good, "/metadata/finalizers", []any{}), good); !got.Allowed {
				t.Errorf("an update without the finalizer: %+v", got)
			}
		})
	}
}
