package probing_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/probing"
	"github.com/workloadkit/workloadkit/reason"
)

const (
	ledger = "example.com/probe-marks"
	list   = "example.com/markers"
)

// marker is a Marker of the namespace ns that selects app=db.
func marker(name string, probes ...probing.Probe) probing.Marker {
	return probing.Marker{Namespace: "ns", Name: name, Selector: labels.SelectorFromSet(labels.Set{"app": "db"}), Probes: probes}
}

// probe returns a probe that runs a command in the container app.
func probe(name string, edit ...func(*probing.Probe)) probing.Probe {
	p := probing.Probe{Name: name, Container: "app", Probe: command()}
	for _, e := range edit {
		e(&p)
	}
	return p
}

func inContainer(name string) func(*probing.Probe) {
	return func(p *probing.Probe) { p.Container = name }
}

func condition(t corev1.PodConditionType) func(*probing.Probe) {
	return func(p *probing.Probe) { p.Condition = t }
}

// labeled adds a label to the marks of a state.
func labeled(state probing.State, key, value string) func(*probing.Probe) {
	return func(p *probing.Probe) {
		p.Marks = append(p.Marks, probing.Marks{State: state, Labels: map[string]string{key: value}})
	}
}

func book(t testing.TB, markers ...probing.Marker) *probing.Book {
	t.Helper()
	b, invalid := probing.NewBook(probing.Annotations{Ledger: ledger, List: list}, markers)
	if err := invalid.Err(); err != nil {
		t.Fatal(err)
	}
	return b
}

func codes(list reason.List) string {
	var out []string
	for _, r := range list {
		out = append(out, string(r.Code))
	}
	return strings.Join(out, " ")
}

// spec returns entries as text.
func spec(entries []probing.Entry) string {
	var out []string
	for _, e := range entries {
		for _, p := range e.Probes {
			out = append(out, fmt.Sprint(e.Name, " ", e.IP, " ", p.Container, " ", p.Name))
		}
	}
	return strings.Join(out, ", ")
}

func sidecar(pod *corev1.Pod) {
	pod.Spec.InitContainers = []corev1.Container{{Name: "setup"}, {Name: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
}

func listed(names string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{list: names} }
}

func TestAssign(t *testing.T) {
	a, xa := marker("a", probe("p")), marker("xa", probe("p"))
	everyone := marker("all", probe("p"))
	everyone.Selector = nil
	other := marker("a", probe("p"))
	other.Namespace = "elsewhere"
	web := func(port string) func(*probing.Probe) {
		return func(p *probing.Probe) { p.Probe = tcpSocket("", intstr.FromString(port)) }
	}
	for _, c := range []struct {
		name    string
		markers []probing.Marker
		pods    []*corev1.Pod
		want    string // of the Node n1
		why     string
	}{
		{"PP-3 the probes of all Markers", []probing.Marker{a, xa}, []*corev1.Pod{onNode("n1", "v"), onNode("n1", "u"), onNode("n2", "w")}, "u 10.0.0.1 app a#p, u 10.0.0.1 app xa#p, v 10.0.0.1 app a#p, v 10.0.0.1 app xa#p", ""},
		{"PP-6 the Marker has gone, xa stays", []probing.Marker{xa}, []*corev1.Pod{onNode("n1", "u")}, "u 10.0.0.1 app xa#p", ""},
		{"PP-12 a probe has gone", []probing.Marker{marker("a", probe("q"))}, []*corev1.Pod{onNode("n1", "u")}, "u 10.0.0.1 app a#q", ""},
		{"PP-2 no selector selects nothing", []probing.Marker{everyone}, []*corev1.Pod{onNode("n1", "u")}, "", ""},
		{"PP-2 another namespace", []probing.Marker{other}, []*corev1.Pod{onNode("n1", "u")}, "", ""},
		{"PP-4 the labels do not match any more", []probing.Marker{a}, []*corev1.Pod{onNode("n1", "u", func(p *corev1.Pod) { p.Labels = nil })}, "", ""},
		{"PP-2 not initialized", []probing.Marker{a}, []*corev1.Pod{onNode("n1", "u", func(p *corev1.Pod) { p.Status.Conditions = nil })}, "", ""},
		{"PP-7 deleted", []probing.Marker{a}, []*corev1.Pod{onNode("n1", "u", func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) })}, "", ""},
		{"PP-7 ended", []probing.Marker{a}, []*corev1.Pod{onNode("n1", "u", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, "", ""},
		{"PP-4 the address follows the Pod", []probing.Marker{a}, []*corev1.Pod{onNode("n1", "u", func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.9" })}, "u 10.0.0.9 app a#p", ""},
		{"PP-3 no such port: the other probe stays", []probing.Marker{marker("a", probe("p", web("none")), probe("q", web("web")))}, []*corev1.Pod{onNode("n1", "u")}, "u 10.0.0.1 app a#q", "UnusableProbe"},
		{"PP 7.4 no such container", []probing.Marker{marker("a", probe("p", inContainer("none")), probe("q"))}, []*corev1.Pod{onNode("n1", "u")}, "u 10.0.0.1 app a#q", ""},
		{"native sidecars, but no other init container", []probing.Marker{marker("a", probe("p", inContainer("setup")), probe("q", inContainer("proxy")))}, []*corev1.Pod{onNode("n1", "u", sidecar)}, "u 10.0.0.1 proxy a#q", ""},
		{"PP-14 exactly the named ones", []probing.Marker{a, xa, everyone}, []*corev1.Pod{onNode("n1", "u", listed("xa, all,none"))}, "u 10.0.0.1 app xa#p, u 10.0.0.1 app all#p", ""},
		{"PP-14 an empty list", []probing.Marker{a}, []*corev1.Pod{onNode("n1", "u", listed(""))}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			byNode, why := book(t, c.markers...).Assign(c.pods)
			if diff := cmp.Diff([]string{c.want, c.why}, []string{spec(byNode["n1"]), codes(why)}); diff != "" {
				t.Error("(-want +got)\n" + diff)
			}
		})
	}
}

func TestNewBook(t *testing.T) {
	for _, c := range []struct{ name, field, value string }{
		{"PP-61 a # in the name", "name", "a#b"},
		{"an empty name", "name", ""},
		{"a condition of Kubernetes", "condition", "Ready"},
		{"the ledger as a mark", "annotation", ledger},
		{"the list as a mark", "annotation", list},
	} {
		p := probe("p")
		switch c.field {
		case "name":
			p.Name = c.value
		case "condition":
			p.Condition = corev1.PodConditionType(c.value)
		default:
			p.Marks = []probing.Marks{{State: probing.Failed, Annotations: map[string]string{c.value: "x"}}}
		}
		b, invalid := probing.NewBook(probing.Annotations{Ledger: ledger, List: list}, []probing.Marker{marker("m", p, probe("q"))})
		byNode, _ := b.Assign([]*corev1.Pod{onNode("n1", "u")})
		if got := spec(byNode["n1"]) + " " + codes(invalid); got != "u 10.0.0.1 app m#q InvalidMarker" {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	_, twice := probing.NewBook(probing.Annotations{Ledger: ledger}, []probing.Marker{marker("m", probe("p"), probe("p")), marker("m")})
	if codes(twice) != "InvalidMarker InvalidMarker" {
		t.Errorf("repeated names: %v", twice)
	}
	for _, a := range []probing.Annotations{{}, {Ledger: list, List: list}} {
		if b, invalid := probing.NewBook(a, nil); b != nil || codes(invalid) != "InvalidAnnotation" {
			t.Errorf("%v: %v", a, invalid)
		}
	}
}

// TestCarried: the probes and Markers for a Pod's own annotations.
func TestCarried(t *testing.T) {
	b := book(t,
		marker("a", probe("p", condition("example.com/a"), labeled("Succeeded", "role", "master")), probe("q"), probe("r", condition("example.com/r"), inContainer("none"))),
		marker("b", probe("p", condition("example.com/b")), probe("s", condition("example.com/a")), probe("t", condition("example.com/t"), inContainer("proxy"))))
	probes, markers := b.Carried(onNode("", "u", sidecar))
	var got []string
	for _, p := range probes {
		got = append(got, fmt.Sprint(p.Container, "/", p.Name, " ", p.Condition, " ", len(p.Marks)))
	}
	if diff := cmp.Diff([]string{"app/p example.com/a 0", "proxy/t example.com/t 0", "a", "b"}, append(got, markers...)); diff != "" {
		t.Error("(-want +got)\n" + diff)
	}
}

// TestJoin: the entries of a Node contain probes of Markers and probes of another source.
func TestJoin(t *testing.T) {
	noIP := entry("v", "v-app")
	noIP.IP = ""
	got, repeated := probing.Join([]probing.Entry{entry("u", "m#p")}, []probing.Entry{noIP, entry("u", "u-app", "m#p")}, []probing.Entry{entry("v", "m#p")})
	if want := "u 10.0.0.1 app m#p, u 10.0.0.1 app u-app, v 10.0.0.1 app v-app, v 10.0.0.1 app m#p"; spec(got) != want {
		t.Errorf("got %s, want %s", spec(got), want)
	}
	if codes(repeated) != "RepeatedProbe" {
		t.Error(repeated)
	}
}

func TestSplitName(t *testing.T) {
	for name, want := range map[string]string{
		"m#p": "m p true", "m": "  false", "": "  false", "#": "  false", "#p": "  false", "m#": "  false", "m#p#q": "  false",
	} {
		marker, probe, ok := probing.SplitName(name)
		if got := fmt.Sprint(marker, " ", probe, " ", ok); got != want {
			t.Errorf("PP-61 %q: %s", name, got)
		}
	}
}

// BenchmarkAssign measures Assign for a Node with 100 Pods, each selected by ten Markers.
func BenchmarkAssign(b *testing.B) {
	var markers []probing.Marker
	for i := range 10 {
		markers = append(markers, marker(fmt.Sprint("m", i), probe("p")))
	}
	var pods []*corev1.Pod
	for i := range 100 {
		pods = append(pods, onNode("n1", fmt.Sprint(i), func(p *corev1.Pod) { p.UID = types.UID(fmt.Sprint(i)) }))
	}
	whole := book(b, markers...)
	for b.Loop() {
		_, _ = whole.Assign(pods)
	}
}
