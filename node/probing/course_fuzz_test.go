package probing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/node/probing"
)

// FuzzCourse: Markers are created, changed and deleted, Pods lose and regain labels, containers fail and restart,
// agents restart, and a compromised Node writes false reports. A Pod never gets a mark that its own Markers do not
// name, and labels set by other writers are not changed. When no more changes occur, each Pod has exactly the marks
// of its Markers, and manager and agents stop writing.
func FuzzCourse(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		w := newWorld(t, seed)
		for range 150 {
			w.move()
		}
		w.settle()
		w.markers = nil
		w.settle()
		for _, pod := range w.pods {
			if pod.Annotations[ledger] != "" || pod.Labels["role"] != "" {
				w.failf("the Markers have gone, and %s has %s and ledger %s", pod.Name, marks(pod), pod.Annotations[ledger])
			}
		}
	})
}

// world is the state of the test: a manager, two Nodes with agents, and the Pods of the Nodes.
type world struct {
	t       *testing.T
	seed    uint64
	rand    *rand.Rand
	now     time.Time
	markers []probing.Marker
	pods    []*corev1.Pod

	specs   map[string][]probing.Entry
	reports map[string][]probing.Report
	agents  map[string]*agent
	healthy map[string]bool // by Pod and probe
	runs    map[types.UID]int
	started map[types.UID]time.Time
	writes  int
}

type agent struct {
	started, written time.Time
	records          map[probing.Slot]probing.Record
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 9)), now: at(0),
		specs: map[string][]probing.Entry{}, reports: map[string][]probing.Report{}, agents: map[string]*agent{},
		healthy: map[string]bool{}, runs: map[types.UID]int{}, started: map[types.UID]time.Time{},
	}
	for i := range 4 {
		node := fmt.Sprint("n", i%2)
		pod := onNode(node, fmt.Sprint("p", i), hasLabel("mine", "1"))
		w.pods = append(w.pods, pod)
		w.started[pod.UID] = w.now
		w.agents[node] = &agent{started: w.now, records: map[probing.Slot]probing.Record{}}
	}
	return w
}

func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d at %v: %s", w.seed, w.now.Sub(at(0)), fmt.Sprintf(format, args...))
}

func (w *world) chance(one int) bool { return w.rand.IntN(one) == 0 }

func (w *world) move() {
	pod := w.pods[w.rand.IntN(len(w.pods))]
	switch w.rand.IntN(10) {
	case 0:
		w.editMarkers()
	case 1:
		if pod.Labels["app"] = "db"; w.chance(2) {
			pod.Labels["app"] = "web"
		}
	case 2:
		w.runs[pod.UID]++
		w.started[pod.UID] = w.now
	case 3:
		a := w.agents[pod.Spec.NodeName]
		a.started, a.records = w.now, map[probing.Slot]probing.Record{}
	case 4:
		w.lie()
	case 5:
		key := fmt.Sprint(pod.Name, "m", w.rand.IntN(2), "#p", w.rand.IntN(2))
		w.healthy[key] = !w.healthy[key]
	case 6:
		w.assign()
	case 7:
		w.mark()
	default:
		w.now = w.now.Add(time.Duration(w.rand.IntN(3000)) * time.Millisecond)
		w.probeAll()
	}
}

func (w *world) editMarkers() {
	name := fmt.Sprint("m", w.rand.IntN(2))
	w.markers = slices.DeleteFunc(w.markers, func(m probing.Marker) bool { return m.Name == name })
	m := marker(name)
	for i := range w.rand.IntN(3) {
		p := probe(fmt.Sprint("p", i), labeled("Succeeded", "role", fmt.Sprint(name, "-yes")), condition(corev1.PodConditionType(fmt.Sprint("c", w.rand.IntN(3)))))
		if w.chance(2) {
			labeled("Failed", "role", fmt.Sprint(name, "-no"))(&p)
		}
		p.Probe.FailureThreshold = w.rand.Int32N(4)
		m.Probes = append(m.Probes, p)
	}
	w.markers = append(w.markers, m)
	slices.SortFunc(w.markers, func(a, b probing.Marker) int { return strings.Compare(a.Name, b.Name) })
}

// lie writes false reports, as a compromised Node might, about Pods of both Nodes.
func (w *world) lie() {
	var lies []probing.Report
	for _, pod := range w.pods {
		lies = append(lies, report(pod.Name, said("m9#p0", "Succeeded", "", 1), said("role", "Succeeded", "", 1), said("m0#p0", "Great", "", 1)))
		if pod.Spec.NodeName == "n0" {
			lies = append(lies, report(pod.Name, said("m0#p0", "Succeeded", "a lie about the other Node", 1)))
		}
	}
	w.reports["n1"] = lies
}

func (w *world) book() *probing.Book { return book(w.t, w.markers...) }

func (w *world) assign() {
	byNode, _ := w.book().Assign(w.pods)
	for node := range w.agents {
		w.specs[node] = byNode[node]
	}
}

func (w *world) mark() {
	b := w.book()
	states := map[types.UID][]probing.ProbeState{}
	for node := range w.agents {
		accepted, _ := probing.Accept(node, w.specs[node], w.reports[node], w.pods)
		for uid, s := range accepted {
			states[uid] = append(states[uid], s...)
		}
	}
	for i, pod := range w.pods {
		change, _ := b.Mark(pod, states[pod.UID])
		after, requests := patched(w.t, pod, change)
		w.writes += requests
		w.pods[i] = after
		if after.Labels["mine"] != "1" {
			w.failf("%s lost a label of others", pod.Name)
		}
		if role := after.Labels["role"]; role != "" && len(b.Of(after)) == 0 {
			w.failf("%s has role %s without a Marker", pod.Name, role)
		}
		for _, c := range after.Status.Conditions {
			if strings.Contains(c.Message, "lie") {
				w.failf("%s believes another Node", pod.Name)
			}
		}
	}
}

// probeAll lets both agents run for one second.
func (w *world) probeAll() {
	for node, a := range w.agents {
		for _, target := range probing.Targets(w.specs[node], a.started) {
			i := slices.IndexFunc(w.pods, func(p *corev1.Pod) bool { return p.UID == target.Pod })
			uid := w.pods[i].UID
			instance := probing.Instance{ID: fmt.Sprint("run", w.runs[uid]), Running: true, Started: w.started[uid]}
			step := probing.Next(&target, a.records[target.Slot()], instance, w.now)
			if step.Run {
				result := probing.Result{Verdict: probing.Fail, Message: target.Name}
				if w.healthy[w.pods[i].Name+target.Name] {
					result.Verdict = probing.Pass
				}
				step.Record = probing.Observe(&target, step.Record, step.Record, result, w.now)
			}
			a.records[target.Slot()] = step.Record
		}
		if p := probing.Publish(w.reports[node], w.specs[node], a.records, probing.Rhythm{}, a.written, w.now); p.Write {
			w.reports[node], a.written = p.Reports, w.now
			w.writes++
		}
	}
}

// settle lets the manager and the agents run until no more writes occur, and compares the Pods with the expected
// marks.
func (w *world) settle() {
	for round := range 40 {
		w.now = w.now.Add(1100 * time.Millisecond)
		if round == 30 {
			w.writes = 0
		}
		w.assign()
		w.probeAll()
		w.mark()
	}
	if w.writes > 0 {
		w.failf("%d writes, though nothing happens", w.writes)
	}
	b := w.book()
	for _, pod := range w.pods {
		wantRole, wantStatus := "", map[corev1.PodConditionType]corev1.ConditionStatus{}
		for _, m := range b.Of(pod) {
			for _, p := range m.Probes {
				status := corev1.ConditionFalse
				if w.healthy[pod.Name+probing.JoinName(m.Name, p.Name)] {
					status = corev1.ConditionTrue
				}
				if _, taken := wantStatus[p.Condition]; !taken {
					wantStatus[p.Condition] = status
				}
				for _, marks := range p.Marks {
					if role := marks.Labels["role"]; wantRole == "" && (marks.State == probing.Succeeded) == (status == corev1.ConditionTrue) {
						wantRole = role
					}
				}
			}
		}
		if role := pod.Labels["role"]; role != wantRole {
			w.failf("%s has role %q, want %q", pod.Name, role, wantRole)
		}
		for _, t := range []corev1.PodConditionType{"c0", "c1", "c2"} {
			i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
			switch want, wanted := wantStatus[t]; {
			case wanted && (i < 0 || pod.Status.Conditions[i].Status != want):
				w.failf("%s: condition %s is not %s: %s", pod.Name, t, want, marks(pod))
			case !wanted && i >= 0 && pod.Status.Conditions[i].Status != corev1.ConditionUnknown:
				w.failf("%s: condition %s is left: %s", pod.Name, t, marks(pod))
			}
		}
	}
}

// FuzzHostile: with any report of a Node and any ledger, the manager does not panic, accepts only pairs of Pod and
// probe from the spec, and writes only keys that a Marker or the ledger names.
func FuzzHostile(f *testing.F) {
	f.Add("m#p", "Succeeded", "fine", `{"m#p":{"labels":{"role":"master"}}}`)
	f.Add("", "", "\xff", "null")
	f.Add("#", "Failed", strings.Repeat("x", 3000), `{"":{"condition":"Ready","labels":null}}`)
	f.Add("m", "Unknown", "", `[]`)
	f.Add("m#p#q", "succeeded", "", `{"m#p":null}`)
	f.Fuzz(func(t *testing.T, name, state, message, raw string) {
		b := book(t, marker("m", probe("p", condition("c"), labeled("Succeeded", "role", "master"))))
		pod := onNode("n1", "u", hasLedger(raw), hasLabel("mine", "1"))
		states, _ := probing.Accept("n1", []probing.Entry{entry("u", "m#p")}, []probing.Report{report("u", probing.ProbeState{Name: name, State: probing.State(state), Message: message})}, []*corev1.Pod{pod})
		if len(states["u"]) > 0 && name != "m#p" {
			t.Fatalf("%q was accepted", name)
		}
		change, _ := b.Mark(pod, []probing.ProbeState{{Name: name, State: probing.State(state), Message: message}})
		for key, value := range change.Labels {
			if value != nil && key != "role" {
				t.Errorf("label %q is set", key)
			}
		}
		for key := range change.Annotations {
			if key != ledger {
				t.Errorf("annotation %q is changed", key)
			}
		}
		for _, c := range change.Conditions {
			if c.Type != "c" || len(c.Message) > 1024 {
				t.Errorf("condition %v is set", c)
			}
		}
		marked, _ := patched(t, pod, change)
		again, _ := b.Mark(marked, nil)
		if _, requests := patched(t, marked, again); requests > 0 {
			t.Errorf("a silent Node, and the second pass writes %+v", again)
		}
	})
}

// FuzzCheckOf: no probe makes an agent send a request to an address other than the Pod's, and each probe that Resolve
// returns has a valid Check.
func FuzzCheckOf(f *testing.F) {
	f.Add("10.0.0.1", "169.254.169.254", "//evil", "HTTP", "web", int32(0))
	f.Add("fd00::1", "", "/x?y", "https", "", int32(80))
	f.Add("::ffff:127.0.0.1", "h", "@evil", "", "80", int32(-1))
	f.Fuzz(func(t *testing.T, ip, host, path, scheme, name string, port int32) {
		get := corev1.HTTPGetAction{Host: host, Path: path, Scheme: corev1.URIScheme(scheme)}
		if get.Port.IntVal = port; name != "" {
			get.Port.Type, get.Port.StrVal = 1, name
		}
		for _, p := range []corev1.Probe{httpGet(get), tcpSocket(host, get.Port), {ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: port, Service: ptr.To(name)}}}} {
			resolved, err := probing.Resolve(&p, &onNode("n1", "u").Spec.Containers[0])
			if err != nil {
				continue
			}
			c, err := probing.CheckOf(&resolved, ip)
			if err != nil {
				continue
			}
			address := c.TCP
			if c.HTTP != nil {
				address = c.HTTP.Address
			} else if c.GRPC.IsValid() {
				address = c.GRPC
			}
			if a := address.Addr(); a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || address.Port() == 0 || c.Timeout < time.Second {
				t.Errorf("%+v", c)
			}
			if strings.TrimPrefix(ip, "::ffff:") == "10.0.0.1" && address.Addr().String() != "10.0.0.1" {
				t.Errorf("%v is not the Pod's address", address)
			}
		}
	})
}
