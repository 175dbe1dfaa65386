package admission_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
)

// undefaulted returns the kinds for which OpenKruise has no webhook that sets defaults.
func undefaulted() []string {
	return []string{"EphemeralJob", "PersistentPodState", "PodProbeMarker", "PodUnavailableBudget", "ResourceDistribution", "WorkloadSpread"}
}

func TestPaths(t *testing.T) {
	handlers := handlersOf(admission.Options{})
	paths := admission.Paths(append(kind.Endpoints(kinds.All(), admission.Options{}), admission.Protection(admission.Options{}), admission.Agents(admission.Options{}))...)
	want := []string{
		"/validate-apps-deployment", "/validate-apps-replicaset", "/validate-apps-statefulset", "/validate-customresourcedefinition",
		"/validate-ingress", "/validate-kruise-daemon", "/validate-namespace", "/validate-service",
	}
	for _, row := range kinds.All() {
		if row.Admission == nil {
			continue
		}
		name := "-" + strings.ReplaceAll(row.Kind.Group, ".", "-") + "-" + row.Name()
		if want = append(want, "/validate"+name); !slices.Contains(undefaulted(), row.Kind.Kind) {
			want = append(want, "/mutate"+name)
		}
	}
	want = slices.DeleteFunc(want, func(path string) bool { return path == "/validate-apps-kruise-io-containerrecreaterequest" }) // the mutating webhook also validates this kind
	slices.Sort(want)
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	all := slices.Sorted(slices.Values(append(paths, "/", "/convert", "/healthz")))
	if diff := cmp.Diff(all, slices.Sorted(maps.Keys(handlers))); diff != "" {
		t.Errorf("handlers (-want +got):\n%s", diff)
	}
	w := httptest.NewRecorder()
	handlers[admission.HealthzPath].ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil))
	if w.Code != http.StatusOK {
		t.Errorf("WC-17: /healthz answers %d", w.Code)
	}
}

// TestManifestsMatchHandlers: the manifests call exactly the handlers' paths.
func TestManifestsMatchHandlers(t *testing.T) {
	type configuration struct {
		Webhooks []admissionregistrationv1.MutatingWebhook `json:"webhooks"` // fields of both kinds of configurations
	}
	files, err := filepath.Glob("../config/webhook/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../config/daemon-webhook/webhooks.yaml")
	groups, versions, unprotected := map[string]string{}, map[string][]string{}, map[string]bool{}
	resources, wanted := map[string]string{}, []string{"mpod.kb.io", "vpod.kb.io", "vpodeviction.kb.io", "vpodplace.kb.io", "vkruisedaemon.kb.io"} // by name of the webhook
	for _, k := range kinds.All() {
		for _, path := range admission.Paths(kind.Endpoints([]kind.Row{k}, admission.Options{})...) {
			name := path[1:2] + k.Name() + ".kb.io" // the prefix is m or v
			resources[name], groups[name], wanted = k.Resource, k.Kind.Group, append(wanted, name)
			unprotected[name] = !k.Protected
			if versions[name] = []string{k.Kind.Version}; k.Converted {
				versions[name] = []string{"v1alpha1", k.Kind.Version}
			}
		}
	}
	protected := protectedRules()
	wanted = slices.AppendSeq(wanted, maps.Keys(protected))
	var paths, names []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c configuration
		if err := yaml.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			paths, names = append(paths, *w.ClientConfig.Service.Path), append(names, w.Name)
			operations := []admissionregistrationv1.OperationType{"CREATE", "UPDATE"}
			if strings.HasPrefix(w.Name, "v") && !unprotected[w.Name] {
				operations = append(operations, "DELETE")
			}
			rule := admissionregistrationv1.Rule{APIGroups: []string{groups[w.Name]}, APIVersions: versions[w.Name], Resources: []string{resources[w.Name]}}
			if w.Name == "mpod.kb.io" {
				operations, rule = operations[:1], admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}
			}
			policy := admissionregistrationv1.Fail
			if of, ok := protected[w.Name]; ok {
				operations, rule, policy = []admissionregistrationv1.OperationType{"DELETE"}, of, admissionregistrationv1.Ignore
				checkProtection(t, w)
			}
			rules, effects := []admissionregistrationv1.RuleWithOperations{{Operations: operations, Rule: rule}}, admissionregistrationv1.SideEffectClassNone
			if of, ok := podRules()[w.Name]; ok {
				rules, effects = of, admissionregistrationv1.SideEffectClassNoneOnDryRun
			}
			if w.Name == "vpodplace.kb.io" {
				operations, rule = operations[:1], admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}
				rules = []admissionregistrationv1.RuleWithOperations{{Operations: operations[:1], Rule: rule}}
				if len(w.MatchConditions) != 2 || !strings.Contains(w.MatchConditions[0].Expression, "'apps.kruise.io/matched-workloadspread' in object.metadata.annotations") {
					t.Errorf("Pods without a place are asked about: %+v", w.MatchConditions)
				}
			}
			if w.Name == "vkruisedaemon.kb.io" {
				rules = agentRules()
				if len(w.MatchConditions) != 1 || !strings.Contains(w.MatchConditions[0].Expression, "request.userInfo.username.endsWith(':kruise-daemon')") {
					t.Errorf("others than agents are asked about: %+v", w.MatchConditions)
				}
			}
			if diff := cmp.Diff(rules, w.Rules); diff != "" {
				t.Errorf("%s: rules (-want +got):\n%s", w.Name, diff)
			}
			if *w.FailurePolicy != policy || *w.SideEffects != effects ||
				!slices.Equal(w.AdmissionReviewVersions, []string{"v1", "v1beta1"}) {
				t.Errorf("%s: %+v", w.Name, w)
			}
		}
	}
	for _, list := range [][]string{paths, names, wanted} {
		slices.Sort(list)
	}
	paths = slices.Compact(paths) // evictions and Pods have the same path
	none := func() webhookadmission.Handler { return nil }
	pods := admission.Pods(none, none, none)
	served := slices.Sorted(slices.Values(admission.Paths(append(kind.Endpoints(kinds.All(), admission.Options{}), pods, admission.Protection(admission.Options{}), admission.Agents(admission.Options{}))...)))
	if diff := cmp.Diff(served, paths); diff != "" {
		t.Errorf("paths (-handlers +manifests):\n%s", diff)
	}
	if diff := cmp.Diff(wanted, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// podRules returns the rules of the webhooks that protect Pods.
func podRules() map[string][]admissionregistrationv1.RuleWithOperations {
	rule := func(resource string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: operations, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
		}
	}
	return map[string][]admissionregistrationv1.RuleWithOperations{
		"vpod.kb.io": {rule("pods", "UPDATE", "DELETE"), rule("pods/resize", "UPDATE")}, "vpodeviction.kb.io": {rule("pods/eviction", "CREATE")},
	}
}

// agentRules returns the rules of the webhook that restricts node agents to objects of their own Nodes. The rules
// contain all resources that agents may write.
func agentRules() (out []admissionregistrationv1.RuleWithOperations) {
	all := []admissionregistrationv1.OperationType{"*"}
	for _, rule := range []admissionregistrationv1.Rule{
		{APIGroups: []string{"apps.kruise.io"}, APIVersions: []string{"*"}, Resources: []string{"containerrecreaterequests", "containerrecreaterequests/*", "nodeimages", "nodeimages/*", "nodepodprobes", "nodepodprobes/*"}},
		{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "pods/*"}},
		{APIGroups: []string{"", "events.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"events"}},
	} {
		out = append(out, admissionregistrationv1.RuleWithOperations{Operations: all, Rule: rule})
	}
	return out
}

// protectedRules returns the rules of the webhooks that protect objects of Kubernetes' own kinds.
func protectedRules() map[string]admissionregistrationv1.Rule {
	rule := func(group, resource string, versions ...string) admissionregistrationv1.Rule {
		return admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: versions, Resources: []string{resource}}
	}
	return map[string]admissionregistrationv1.Rule{
		"vbuiltindeployment.kb.io": rule("apps", "deployments", "v1"), "vbuiltinreplicaset.kb.io": rule("apps", "replicasets", "v1"),
		"vbuiltinstatefulset.kb.io": rule("apps", "statefulsets", "v1"), "vnamespace.kb.io": rule("", "namespaces", "v1"), "vservice.kb.io": rule("", "services", "v1"),
		"vcustomresourcedefinition.kb.io": rule("apiextensions.k8s.io", "customresourcedefinitions", "v1", "v1beta1"),
		"vingress.kb.io":                  rule("networking.k8s.io", "ingresses", "v1", "v1beta1"),
	}
}

// checkProtection checks that the API server calls the webhook only for objects with the label, and for no object in
// kube-system.
func checkProtection(t *testing.T, w *admissionregistrationv1.MutatingWebhook) {
	t.Helper()
	labelled := []metav1.LabelSelectorRequirement{{Key: "policy.kruise.io/delete-protection", Operator: metav1.LabelSelectorOpExists}}
	elsewhere := []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"}}}
	if diff := cmp.Diff(labelled, w.ObjectSelector.MatchExpressions); diff != "" {
		t.Errorf("DP-10 %s: objects (-want +got):\n%s", w.Name, diff)
	}
	if diff := cmp.Diff(elsewhere, w.NamespaceSelector.MatchExpressions); diff != "" {
		t.Errorf("6.4 %s: namespaces (-want +got):\n%s", w.Name, diff)
	}
}

// FuzzBodies: whatever the body of a request is, no handler panics, and each handler responds with JSON and status
// 200, or with status 400.
func FuzzBodies(f *testing.F) {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		object := small(f, version)
		req := admissiontest.Request(f, admissionv1.Update, object, object)
		f.Add(admissiontest.Encode(f, tree{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": req}))
		f.Add(admissiontest.Encode(f, tree{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
			"request": tree{"uid": "1", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": []any{object, nil, 1}},
		}))
	}
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"operation":"CREATE","kind":{"group":"apps.kruise.io",` +
		`"version":"v1alpha1","kind":"CloneSet"},"object":{"spec":{"template":{"spec":{"containers":[null]}},"volumeClaimTemplates":[null]}}}}`))
	handlers := handlersOf(admission.Options{})
	f.Fuzz(func(t *testing.T, body []byte) {
		for path := range handlers {
			code, answer := handlers.Ask(t, path, body)
			switch {
			case path == admission.HealthzPath:
			case path == admission.ConvertPath && code == http.StatusBadRequest:
			case code != http.StatusOK || !json.Valid(answer):
				t.Errorf("%s: %d %s", path, code, answer)
			}
			var got admissionv1.AdmissionReview
			if json.Unmarshal(answer, &got) == nil && got.Response != nil && got.Response.Result != nil &&
				got.Response.Result.Code == http.StatusInternalServerError {
				t.Errorf("%s: %s", path, answer) // a recovered panic
			}
		}
	})
}

func BenchmarkMutate(b *testing.B) {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		b.Run(version, func(b *testing.B) {
			object := small(b, version, "  updateStrategy: {partition: 80%}")
			req := admissiontest.Request(b, admissionv1.Create, object, nil)
			body := admissiontest.Encode(b, tree{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": req})
			handlers := handlersOf(admission.Options{})
			b.ReportAllocs()
			for b.Loop() {
				if code, _ := handlers.Ask(b, mutatePath, body); code != http.StatusOK {
					b.Fatal(code)
				}
			}
		})
	}
}
