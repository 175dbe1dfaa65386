package install_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
)

func TestKustomizationsListEveryManifest(t *testing.T) {
	for _, dir := range []string{"crd", "webhook", "rbac", "manager", "daemon", "metrics-secure"} {
		raw, err := os.ReadFile(filepath.Join(config, dir, "Kustomization"))
		if err != nil {
			t.Fatal(err)
		}
		var k struct{ Resources []string }
		if err := yaml.Unmarshal(raw, &k); err != nil {
			t.Fatal(err)
		}
		k.Resources = slices.DeleteFunc(k.Resources, func(name string) bool { return strings.HasPrefix(name, "../") })
		slices.Sort(k.Resources)
		if diff := cmp.Diff(manifests(t, filepath.Join(config, dir)), k.Resources); diff != "" {
			t.Errorf("resources of %s (-want +got):\n%s", dir, diff)
		}
	}
}

// manifests returns the files in a folder of manifests that the kustomization must install. Of the CRDs, these are
// the CRDs of the kinds in the table of kinds.
func manifests(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no manifests in %s: %v", dir, err)
	}
	for i, path := range paths {
		paths[i] = filepath.Base(path)
	}
	if filepath.Base(dir) == "crd" {
		paths = slices.DeleteFunc(paths, func(name string) bool {
			return !slices.ContainsFunc(kinds.All(), func(k kind.Row) bool { return name == k.Kind.Group+"_"+k.Resource+".yaml" })
		})
	}
	return paths
}

func TestChartHoldsCopiesOfTheManifests(t *testing.T) {
	for _, dir := range []string{"crd", "webhook", "rbac", "daemon", "daemon-webhook"} {
		copies := filepath.Join(chart, "files", dir)
		if diff := cmp.Diff(manifests(t, filepath.Join(config, dir)), manifests(t, copies)); diff != "" {
			t.Errorf("files of %s; run make generate (-want +got):\n%s", dir, diff)
			continue
		}
		for _, name := range manifests(t, copies) {
			want, err := os.ReadFile(filepath.Join(config, dir, name))
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(copies, name))
			if err != nil {
				t.Fatal(err)
			}
			if string(want) != string(got) {
				t.Errorf("%s/%s is not what examples/config has: run make generate", dir, name)
			}
		}
	}
}

func TestChartInstallsWhatTheKustomizationDoes(t *testing.T) {
	for _, tc := range []struct {
		kustomization string
		values        []string
	}{
		{"examples/config/default", nil},
		{"examples/config/metrics-secure", []string{"manager.metrics.secure=true"}},
		{"examples/config/no-daemon", []string{"daemon.enabled=false"}},
	} {
		want := asChart(parse(t, must(t)(kubectl(t, "kustomize", tc.kustomization))))
		if diff := cmp.Diff(want, parse(t, must(t)(template(t, tc.values...)))); diff != "" {
			t.Errorf("%s and chart (-kustomization +chart):\n%s", tc.kustomization, diff)
		}
	}
}

// TestAgentsAreBoundOnEveryVersion: from Kubernetes 1.30 on, ValidatingAdmissionPolicies restrict node agents to
// objects of their own Nodes. Before 1.30 a webhook restricts agents, which the API server calls only for requests of
// agents. Before 1.28 neither is possible, and agents have fewer permissions.
func TestAgentsAreBoundOnEveryVersion(t *testing.T) {
	type bound struct {
		Policies   int
		Resources  []string // in the rules of the webhook
		Conditions int
		Events     bool // a right
	}
	all := []string{"containerrecreaterequests", "containerrecreaterequests/*", "nodeimages", "nodeimages/*", "nodepodprobes", "nodepodprobes/*", "pods", "pods/*", "events"}
	chart := func(version string, values ...string) string {
		args := []string{"template", "kruise", "examples/charts/kruise", "--kube-version", version}
		for _, value := range values {
			args = append(args, "--set", value)
		}
		return must(t)(helm(t, args...))
	}
	for name, tc := range map[string]struct {
		text string
		want bound
	}{
		"1.30":                      {chart("1.30.0"), bound{Policies: 5, Events: true}},
		"1.29":                      {chart("1.29.3"), bound{Resources: all, Conditions: 1, Events: true}},
		"1.27":                      {chart("1.27.0"), bound{Resources: all[:6]}},
		"1.29, not bound":           {chart("1.29.3", "daemon.policies=false"), bound{Events: true}},
		"1.29, no agents":           {chart("1.29.3", "daemon.enabled=false"), bound{}},
		"MG-27 the gate is off":     {chart("1.30.0", "featureGates=KruiseDaemon=false"), bound{}},
		"1.30, with kubectl":        {kustomize(t), bound{Policies: 5, Events: true}},
		"1.29, with kubectl":        {must(t)(kubectl(t, "kustomize", olderOverlay(t))), bound{Resources: all, Conditions: 1, Events: true}},
		"without agents by kubectl": {must(t)(kubectl(t, "kustomize", "examples/config/no-daemon")), bound{}},
	} {
		var got bound
		for _, obj := range parse(t, tc.text) {
			switch obj.GetKind() {
			case "ValidatingAdmissionPolicy":
				got.Policies++
			case "ClusterRole":
				got.Events = got.Events || obj.GetName() == "kruise-daemon-role" && strings.Contains(fmt.Sprint(obj.Object["rules"]), "events")
			case "ValidatingWebhookConfiguration":
				for _, webhook := range as[admissionregistrationv1.ValidatingWebhookConfiguration](t, obj).Webhooks {
					if webhook.Name != "vkruisedaemon.kb.io" {
						continue
					}
					got.Conditions = len(webhook.MatchConditions)
					for _, rule := range webhook.Rules {
						got.Resources = append(got.Resources, rule.Resources...)
					}
				}
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// olderOverlay returns the overlay in the comment of the Kustomization of the webhook for agents.
func olderOverlay(t *testing.T) (dir string) {
	t.Helper()
	return overlayOf(t, "daemon-webhook", "default", "daemon-webhook")
}

// asChart adds the chart's additions to the objects of a kustomization.
func asChart(objects map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	for _, obj := range objects {
		switch {
		case obj.GetKind() == "CustomResourceDefinition":
			annotations := obj.GetAnnotations()
			annotations["helm.sh/resource-policy"] = "keep"
			obj.SetAnnotations(annotations)
		case strings.HasSuffix(obj.GetKind(), "WebhookConfiguration"):
			webhooks, _, _ := unstructured.NestedSlice(obj.Object, "webhooks")
			for _, item := range webhooks {
				item.(map[string]any)["timeoutSeconds"] = int64(30)
			}
			_ = unstructured.SetNestedSlice(obj.Object, webhooks, "webhooks")
		}
	}
	return objects
}

// TestRightsNameWhatIsInstalled: the manager's ClusterRole names exactly the installed kinds.
func TestRightsNameWhatIsInstalled(t *testing.T) {
	objects := parse(t, kustomize(t))
	want := map[string][]string{}
	for _, obj := range objects {
		switch obj.GetKind() {
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			resource := strings.ToLower(obj.GetKind()) + "s"
			want[resource] = append(want[resource], obj.GetName())
		case "CustomResourceDefinition":
			want["customresourcedefinitions"] = append(want["customresourcedefinitions"], obj.GetName())
		}
	}
	got := map[string][]string{}
	for _, name := range []string{"ClusterRole", "Role"} {
		for _, rule := range as[rbacv1.ClusterRole](t, find(t, objects, name, "kruise-manager-role")).Rules {
			if slices.Equal(rule.Resources, []string{"*/scale"}) && slices.Equal(rule.Verbs, []string{"get"}) {
				continue // PodUnavailableBudgets read the scale of any owner of Pods
			}
			if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*") || len(rule.NonResourceURLs) > 0 {
				t.Errorf("%s grants more than can be tested: %+v", name, rule)
			}
			for _, resource := range rule.Resources {
				if name == "ClusterRole" && len(rule.ResourceNames) > 0 {
					got[resource] = append(got[resource], rule.ResourceNames...)
				}
			}
		}
	}
	for _, names := range []map[string][]string{want, got} {
		for _, list := range names {
			slices.Sort(list)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names in the rules of the ClusterRole (-want +got):\n%s", diff)
	}
}

func TestChartMovesToAnotherNamespace(t *testing.T) {
	text := must(t)(template(t, `installation.namespace="elsewhere"`, `installation.createNamespace=false`))
	for line := range strings.Lines(text) {
		if strings.Contains(line, namespace) {
			t.Errorf("still about another namespace: %s", line)
		}
	}
	for _, obj := range parse(t, text) {
		switch obj.GetKind() {
		case "Namespace":
			t.Error("the namespace is created although nobody wants that")
		case "Deployment", "Service", "ServiceAccount", "Role", "RoleBinding":
			if obj.GetNamespace() != "elsewhere" {
				t.Errorf("%s is in namespace %s", key(obj), obj.GetNamespace())
			}
		}
	}
}

// changed contains, for every value of the chart, another value, and the text that the manifests must contain with
// this value. So the test notices a value that the chart ignores.
func changed() map[string][2]string {
	return map[string][2]string{
		"crds.managed":                        {`false`, ``}, // see below
		"featureGates":                        {`"TemplateNoDefaults=true,CloneSetShortHash=false"`, `- --feature-gates=TemplateNoDefaults=true,CloneSetShortHash=false`},
		"installation.namespace":              {`"elsewhere"`, `namespace: "elsewhere"`},
		"installation.createNamespace":        {`false`, ``},
		"installation.roleListGroups":         {`["example.test"]`, `- example.test`},
		"externalCerts.annotations":           {`{"cert-manager.io/inject-ca-from":"a/b"}`, `cert-manager.io/inject-ca-from: a/b`},
		"enableKubeCacheMutationDetector":     {`true`, `- name: KUBE_CACHE_MUTATION_DETECTOR`},
		"imagePullSecrets":                    {`[{"name":"pull"}]`, `- name: pull`},
		"daemon.enabled":                      {`false`, ``}, // see below
		"daemon.image.repository":             {`"registry.test:5000/team/agent"`, `image: "registry.test:5000/team/agent:v0.1.0"`},
		"daemon.image.tag":                    {`"v9"`, `image: "workloadkit/kruise-daemon:v9"`},
		"daemon.log.level":                    {`"7"`, `- --v=7`},
		"daemon.port":                         {`10231`, `- --addr=:10231`},
		"daemon.socketLocation":               {`"/run/containerd"`, `path: "/run/containerd"`},
		"daemon.socketFile":                   {`"containerd.sock"`, `- "--socket-file=containerd.sock"`},
		"daemon.kubeletConfig":                {`"/etc/kubelet.yaml"`, `path: "/etc/kubelet.yaml"`},
		"daemon.policies":                     {`false`, ``},
		"daemon.priorityClassName":            {`"special"`, `priorityClassName: "special"`},
		"daemon.resources.requests.cpu":       {`"7m"`, `cpu: 7m`},
		"daemon.resources.requests.memory":    {`"33Mi"`, `memory: 33Mi`},
		"daemon.resources.limits.memory":      {`"97Mi"`, `memory: 97Mi`},
		"daemon.hostNetwork":                  {`true`, `hostNetwork: true`},
		"daemon.podLabels":                    {`{"team":"nodes"}`, `team: nodes`},
		"daemon.extraArgs":                    {`["--enable-pprof"]`, `- --enable-pprof`},
		"daemon.nodeSelector":                 {`{"disk":"fast"}`, `disk: fast`},
		"daemon.tolerations":                  {`[{"key":"gpu","operator":"Exists"}]`, `- key: gpu`},
		"manager.image.repository":            {`"registry.test:5000/team/manager"`, `image: "registry.test:5000/team/manager:v0.1.0"`},
		"manager.image.tag":                   {`"v9"`, `image: "workloadkit/kruise-manager:v9"`},
		"manager.replicas":                    {`5`, `replicas: 5`},
		"manager.log.level":                   {`"7"`, `- --v=7`},
		"manager.loggingFormat":               {`"json"`, `- --logging-format=json`},
		"manager.webhook.port":                {`19876`, `value: "19876"`},
		"manager.webhook.host":                {`"kruise.test"`, `url: https://kruise.test:9876/convert`},
		"manager.metrics.port":                {`18080`, `- --metrics-addr=:18080`},
		"manager.healthProbe.port":            {`18000`, `- --health-probe-addr=:18000`},
		"manager.metrics.secure":              {`true`, `- --metrics-secure`},
		"manager.pprofAddr":                   {`""`, `- "--pprof-addr="`},
		"manager.resyncPeriod":                {`"10h"`, `- --sync-period=10h`},
		"manager.resources.requests.cpu":      {`"150m"`, `cpu: 150m`},
		"manager.resources.requests.memory":   {`"300Mi"`, `memory: 300Mi`},
		"manager.resources.limits.cpu":        {`3`, `cpu: 3`},
		"manager.resources.limits.memory":     {`"1Gi"`, `memory: 1Gi`},
		"manager.hostNetwork":                 {`true`, `hostNetwork: true`},
		"manager.nodeAffinity":                {`{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":7}]}`, `- weight: 7`},
		"manager.nodeSelector":                {`{"disk":"fast"}`, `disk: fast`},
		"manager.tolerations":                 {`[{"key":"dedicated","operator":"Exists"}]`, `- key: dedicated`},
		"manager.priorityClassName":           {`"system-cluster-critical"`, `priorityClassName: system-cluster-critical`},
		"manager.podLabels":                   {`{"team":"a"}`, `team: a`},
		"manager.extraArgs":                   {`["--cloneset-workers=9"]`, `- --cloneset-workers=9`},
		"podDisruptionBudget.enabled":         {`false`, ``},
		"podDisruptionBudget.minAvailable":    {`1`, `minAvailable: 1`},
		"podDisruptionBudget.maxUnavailable":  {`"40%"`, `maxUnavailable: 40%`},
		"networkPolicy.enabled":               {`true`, `kind: NetworkPolicy`},
		"networkPolicy.webhookCIDRs":          {`["192.0.2.0/24"]`, `cidr: 192.0.2.0/24`},
		"networkPolicy.metricsFrom":           {`[{"podSelector":{"matchLabels":{"app":"prometheus"}}}]`, `app: prometheus`},
		"serviceMonitor.enabled":              {`true`, `kind: ServiceMonitor`},
		"serviceMonitor.interval":             {`"17s"`, `interval: 17s`},
		"serviceMonitor.labels":               {`{"release":"r"}`, `release: r`},
		"webhookConfiguration.timeoutSeconds": {`11`, `timeoutSeconds: 11`},
		"webhookConfiguration.aksIntegration": {`true`, `kubernetes.azure.com/managedby`},
		"serviceAccount.annotations":          {`{"role":"r"}`, `role: r`},
	}
}

func TestEveryValueOfTheChartMatters(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	names, want := slices.Sorted(maps.Keys(leaves("", values))), changed()
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(want))); diff != "" {
		t.Fatalf("values that this test knows (-values.yaml +test):\n%s", diff)
	}
	for _, name := range names {
		sets := append(needed(name), name+"="+want[name][0])
		standard := must(t)(template(t, sets[:len(sets)-1]...))
		got := must(t)(template(t, sets...))
		// Quotes do not matter, except for empty values.
		plain := func(s string) string { return strings.ReplaceAll(s, `"`, ``) }
		if text := plain(want[name][1]); got == standard || !strings.Contains(plain(got), text) || (text != "" && strings.Contains(plain(standard), text+"\n")) {
			t.Errorf("%s=%s does not put %q into the manifests", name, want[name][0], text)
		}
		parse(t, got)
	}
}

// needed returns further values that the chart requires if a value is set.
func needed(name string) []string {
	switch group, leaf, _ := strings.Cut(name, "."); {
	case name == "externalCerts.annotations":
		return []string{`featureGates="EnableExternalCerts=true"`}
	case name == "installation.roleListGroups":
		return []string{`featureGates="ResourcesDeletionProtection=true,DeletionProtectionForCRDCascadingGate=true"`}
	case leaf != "enabled" && slices.Contains([]string{"networkPolicy", "serviceMonitor"}, group):
		return []string{group + ".enabled=true"}
	}
	return nil
}

// leaves returns the values that are not groups of values.
func leaves(path string, value any) map[string]any {
	group, ok := value.(map[string]any)
	if !ok || len(group) == 0 {
		return map[string]any{path: value}
	}
	out := map[string]any{}
	for name, v := range group {
		maps.Copy(out, leaves(strings.TrimPrefix(path+"."+name, "."), v))
	}
	return out
}

func TestChartLeavesOutCRDsThatSomebodyElseManages(t *testing.T) {
	for _, obj := range parse(t, must(t)(template(t, `crds.managed=false`))) {
		if obj.GetKind() == "CustomResourceDefinition" {
			t.Errorf("%s is installed", key(obj))
		}
	}
}

// TestChartWithExternalCertificates: with external certificates, annotations in the chart's objects ask another
// component (such as cert-manager) for certificates, and the manager has no permission to write certificates.
func TestChartWithExternalCertificates(t *testing.T) {
	objects := parse(t, must(t)(template(t, `featureGates="TemplateNoDefaults=true, EnableExternalCerts=true"`, `externalCerts.annotations={"inject":"here"}`)))
	for _, obj := range objects {
		annotated := obj.GetKind() == "CustomResourceDefinition" || strings.HasSuffix(obj.GetKind(), "WebhookConfiguration")
		if _, ok := obj.GetAnnotations()["inject"]; ok != annotated {
			t.Errorf("%s has annotations %v", key(obj), obj.GetAnnotations())
		}
		if annotated && obj.GetKind() == "CustomResourceDefinition" && len(obj.GetAnnotations()) < 3 {
			t.Errorf("%s has lost annotations: %v", key(obj), obj.GetAnnotations())
		}
	}
	converted := kind.ConvertedCRDs(kinds.All())
	for _, kind := range []string{"ClusterRole", "Role"} {
		for _, rule := range as[rbacv1.ClusterRole](t, find(t, objects, kind, "kruise-manager-role")).Rules {
			for _, resource := range rule.Resources {
				switch resource {
				case "secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "customresourcedefinitions":
					want := []string{"get", "list", "watch"}
					if resource == "customresourcedefinitions" && !slices.Contains(converted, rule.ResourceNames[0]) {
						want = want[1:]
					}
					if len(rule.ResourceNames) == 0 { // to read the timeouts of all webhooks for Pods
						want = []string{"list"}
					}
					if diff := cmp.Diff(want, rule.Verbs); diff != "" {
						t.Errorf("rights on %s (-want +got):\n%s", resource, diff)
					}
				}
			}
		}
	}
}

func TestChartRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		values []string
		want   []string // parts of the error
	}{
		{"an unknown value", []string{`webhook={"port":1}`}, []string{"webhook", "not allowed"}},
		{"a misspelt value", []string{`manager.replica=1`}, []string{"/manager", "replica", "not allowed"}},
		{"a value of a part that is not built", []string{`daemon.credentialProvider={"enable":true}`}, []string{"/daemon", "credentialProvider", "not allowed"}},
		{"the label of the agents", []string{`daemon.podLabels={"control-plane":"x"}`}, []string{"daemon.podLabels"}},
		{"DP-11 nobody to list", []string{`installation.roleListGroups=[]`}, []string{"/installation/roleListGroups", "minItems"}},
		{"text for a number", []string{`manager.replicas="two"`}, []string{"/manager/replicas", "got string, want integer"}},
		{"no replicas", []string{`manager.replicas=0`}, []string{"/manager/replicas", "minimum"}},
		{"text for a switch", []string{`crds.managed="false"`}, []string{"/crds/managed", "got string, want boolean"}},
		{"a value taken away", []string{`manager.webhook=null`}, []string{"/manager", "webhook", "missing"}},
		{"a port out of range", []string{`manager.webhook.port=65536`}, []string{"/manager/webhook/port", "65,535"}},
		{"one port for two", []string{`manager.webhook.port=8080`}, []string{"manager.metrics.port", "8080", "differ"}},
		{"a host with its scheme", []string{`manager.webhook.host="https://a.test"`}, []string{"/manager/webhook/host", "https://a.test"}},
		{"a timeout that the API server would refuse", []string{`webhookConfiguration.timeoutSeconds=31`}, []string{"/webhookConfiguration/timeoutSeconds", "30"}},
		{"a log format", []string{`manager.loggingFormat="xml"`}, []string{"/manager/loggingFormat", "json"}},
		{"a period without unit", []string{`manager.resyncPeriod=10`}, []string{"/manager/resyncPeriod", "10"}},
		{"gates in another notation", []string{`featureGates="A:true"`}, []string{"/featureGates", "A:true"}},
		{"annotations that are no text", []string{`serviceAccount.annotations={"a":1}`}, []string{"/serviceAccount/annotations/a", "want string"}},
		{"annotations for nobody", []string{`externalCerts.annotations={"a":"b"}`}, []string{"externalCerts.annotations", "EnableExternalCerts=true"}},
		{"both budgets", []string{`podDisruptionBudget.minAvailable=1`, `podDisruptionBudget.maxUnavailable=1`}, []string{"podDisruptionBudget", "minAvailable", "maxUnavailable"}},
		{"a budget that nobody gets", []string{`podDisruptionBudget.enabled=false`, `podDisruptionBudget.minAvailable=1`}, []string{"podDisruptionBudget.enabled"}},
		{"a budget that holds up every drain", []string{`podDisruptionBudget.minAvailable=2`}, []string{"podDisruptionBudget.minAvailable", "manager.replicas", "2"}},
		{"no budget at all", []string{`podDisruptionBudget.maxUnavailable=0`}, []string{"/podDisruptionBudget/maxUnavailable"}},
		{"addresses for no policy", []string{`networkPolicy.webhookCIDRs=["192.0.2.0/24"]`}, []string{"networkPolicy.webhookCIDRs", "networkPolicy.enabled"}},
		{"peers for no policy", []string{`networkPolicy.metricsFrom=[{"podSelector":{}}]`}, []string{"networkPolicy.metricsFrom", "networkPolicy.enabled"}},
		{"a policy for Pods that have none", []string{`networkPolicy.enabled=true`, `manager.hostNetwork=true`}, []string{"networkPolicy.enabled", "manager.hostNetwork"}},
		{"an address that is none", []string{`networkPolicy.enabled=true`, `networkPolicy.webhookCIDRs=["192.0.2.0"]`}, []string{"/networkPolicy/webhookCIDRs/0", "192.0.2.0"}},
		{"a monitor that is kept out", []string{`networkPolicy.enabled=true`, `serviceMonitor.enabled=true`}, []string{"serviceMonitor.enabled", "networkPolicy.metricsFrom"}},
		{"labels for no monitor", []string{`serviceMonitor.labels={"a":"b"}`}, []string{"serviceMonitor.labels", "serviceMonitor.enabled"}},
		{"an interval for no monitor", []string{`serviceMonitor.interval="5s"`}, []string{"serviceMonitor.interval", "serviceMonitor.enabled"}},
		{"a label that Pods are found by", []string{`manager.podLabels={"control-plane":"mine"}`}, []string{"manager.podLabels", "control-plane"}},
		{"an argument that is no flag", []string{`manager.extraArgs=["run"]`}, []string{"/manager/extraArgs/0", "run"}},
		{"a namespace in capitals", []string{`installation.namespace="Kruise"`}, []string{"/installation/namespace", "Kruise"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := template(t, tc.values...)
			if err == nil {
				t.Fatalf("accepted:\n%.400s", out)
			}
			for _, text := range tc.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("the error does not name %q:\n%v", text, err)
				}
			}
		})
	}
}

// TestSchemaOfTheChartIsThatOfItsValues: the chart's schema lists exactly the values in values.yaml. Helm does not
// compare the two files.
func TestSchemaOfTheChartIsThatOfItsValues(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Ref                  string           `json:"$ref"`
		Properties           map[string]*node `json:"properties"`
		Definitions          map[string]*node `json:"definitions"`
		AdditionalProperties json.RawMessage  `json:"additionalProperties"`
	}
	var schema node
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	raw, err = os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	delete(schema.Properties, "global") // Helm's own
	var compare func(path string, n *node, value any)
	compare = func(path string, n *node, value any) {
		if name, ok := strings.CutPrefix(n.Ref, "#/definitions/"); ok {
			n = schema.Definitions[name]
		}
		group, ok := value.(map[string]any)
		if !ok || len(n.Properties) == 0 || len(group) == 0 {
			return
		}
		if string(n.AdditionalProperties) != "false" {
			t.Errorf("%s accepts unknown values", path)
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(group)), slices.Sorted(maps.Keys(n.Properties))); diff != "" {
			t.Errorf("%s (-values +schema):\n%s", path, diff)
		}
		for name, v := range group {
			if n.Properties[name] != nil {
				compare(fmt.Sprintf("%s/%s", path, name), n.Properties[name], v)
			}
		}
	}
	compare("", &schema, values)
}

// overlay returns the overlay for another namespace that the comment of the Kustomization shows.
func overlay(t *testing.T) (dir string) {
	t.Helper()
	return overlayOf(t, "default", "default")
}

// overlayOf writes the overlay in the comment of a Kustomization to a separate folder. The overlay refers to other
// folders.
func overlayOf(t *testing.T, shownBy string, folders ...string) (dir string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(config, shownBy, "Kustomization"))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
	for line := range strings.Lines(string(raw)) {
		if shown, ok := strings.CutPrefix(line, "#   "); ok {
			text += shown
		}
	}
	for _, folder := range folders {
		path, err := filepath.Abs(filepath.Join(config, folder))
		if err == nil {
			path, err = filepath.Rel(dir, path)
		}
		if err != nil {
			t.Fatal(err)
		}
		text = strings.Replace(text, "../"+folder, path, 1)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestManagerStartsWithoutWebhooks: the API server calls no webhook for the manager's own Pods, whatever the
// manager's namespace and its labels. For Pods in all other namespaces, the API server calls the webhooks.
func TestManagerStartsWithoutWebhooks(t *testing.T) {
	for name, tc := range map[string]struct{ namespace, text string }{
		"kustomization":                         {namespace, must(t)(kubectl(t, "kustomize", "examples/config/default"))},
		"chart":                                 {namespace, must(t)(template(t))},
		"kustomization for another namespace":   {"ops", must(t)(kubectl(t, "kustomize", overlay(t)))},
		"chart for another namespace":           {"ops", must(t)(template(t, `installation.namespace="ops"`, `installation.createNamespace=false`))},
		"chart for the namespace of the system": {"kube-system", must(t)(template(t, `installation.namespace="kube-system"`, `installation.createNamespace=false`))},
	} {
		asked := 0
		for _, obj := range parse(t, tc.text) {
			var configuration struct {
				Webhooks []admissionregistrationv1.ValidatingWebhook `json:"webhooks"`
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &configuration); err != nil {
				continue
			}
			for _, webhook := range configuration.Webhooks {
				if !slices.ContainsFunc(webhook.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
					return slices.ContainsFunc(r.Resources, func(resource string) bool { return strings.HasPrefix(resource, "pods") })
				}) {
					continue
				}
				selector, err := metav1.LabelSelectorAsSelector(webhook.NamespaceSelector)
				if err != nil {
					t.Fatal(err)
				}
				matches := func(name string) bool { return selector.Matches(labels.Set{corev1.LabelMetadataName: name}) }
				if matches(tc.namespace) || !matches("shop") || tc.namespace != namespace && !matches(namespace) {
					t.Errorf("%s: webhook %s asks about Pods of %s: %s", name, webhook.Name, tc.namespace, selector)
				}
				asked++
			}
		}
		if asked != 4 { // mpod, vpod, vpodeviction, vpodplace
			t.Errorf("%s: %d webhooks are asked about Pods", name, asked)
		}
	}
}
