package onnode

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/kruise/probes"
	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/node/probing"
)

// TestRead: the agent reads NodePodProbes in the form that OpenKruise writes, and runs no probe of a NodePodProbe
// that cannot be decoded.
func TestRead(t *testing.T) {
	for name, tt := range map[string]struct {
		spec string
		want []string
	}{
		"7.2 as OpenKruise writes":         {`{"podProbes":[{"name":"x","namespace":"a","uid":"u","IP":"10.0.0.1","probes":[{"name":"m#p","containerName":"app","probe":{"tcpSocket":{"port":80},"periodSeconds":5}}]}]}`, []string{"a/x u 10.0.0.1 m#p"}},
		"7.2 an unknown field":             {`{"podProbes":[{"name":"x","namespace":"a","uid":"u","IP":"","new":1,"probes":[{"name":"m#p","containerName":"app","probe":{"tcpSocket":{"port":80}}}]}]}`, []string{"a/x u  m#p"}},
		"7.2 a wrong type: nothing is run": {`{"podProbes":[{"name":"x","namespace":"a","uid":"u","IP":"","probes":[{"name":"m#p","containerName":"app","probe":{"periodSeconds":"often","exec":{"command":["x"]}}},{"name":"m#q","containerName":"app","probe":{}}]}]}`, nil},
		"no spec":                          {`null`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"NodePodProbe","metadata":{"name":"n","managedFields":[{"manager":"x"}]},"spec":`+tt.spec+`}`), &u.Object); err != nil {
				t.Fatal(err)
			}
			object, err := read()(u)
			got, ok := object.(*v1alpha1.NodePodProbe)
			if err != nil || !ok || got.ManagedFields != nil {
				t.Fatalf("%v, %T", err, object)
			}
			var words []string
			for _, e := range probes.Entries(&got.Spec) {
				for _, p := range e.Probes {
					words = append(words, e.Namespace+"/"+e.Name+" "+string(e.UID)+" "+e.IP+" "+p.Name)
				}
			}
			if diff := cmp.Diff(tt.want, words); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeep: an older version from the watch does not replace the version that a write has returned.
func TestKeep(t *testing.T) {
	version := func(uid, version string) *v1alpha1.NodePodProbe {
		return &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}
	}
	for name, tt := range map[string]struct {
		before *v1alpha1.NodePodProbe
		object any
		want   string
	}{
		"the first":               {nil, version("u", "1"), "1"},
		"ND-70 newer":             {version("u", "9"), version("u", "10"), "10"},
		"ND-70 older":             {version("u", "10"), version("u", "9"), "10"},
		"PP-1 another list":       {version("u", "10"), version("v", "9"), "9"},
		"an object of no type":    {version("u", "10"), &unstructured.Unstructured{}, "10"},
		"a version without order": {version("u", "10"), version("u", "x"), "x"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Watched{current: tt.before}
			w.keep(tt.object)
			if got := w.List().ResourceVersion; got != tt.want {
				t.Errorf("version %s, want %s", got, tt.want)
			}
		})
	}
}

func TestInstanceOf(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	container := func(name, id string, state containerrestart.State) (c cri.Container) {
		c.Name, c.ID, c.State, c.Started = name, id, state, at
		return c
	}
	for name, tt := range map[string]struct {
		containers []cri.Container
		want       probing.Instance
	}{
		"ND-31 missing":          {[]cri.Container{container("log", "1", containerrestart.Running)}, probing.Instance{}},
		"ND-31 running":          {[]cri.Container{container("app", "1", containerrestart.Running)}, probing.Instance{ID: "1", Running: true, Started: at}},
		"ND-31 ended":            {[]cri.Container{container("app", "1", containerrestart.Exited)}, probing.Instance{ID: "1", Started: at}},
		"ND-31 the newest":       {[]cri.Container{container("app", "2", containerrestart.Running), container("app", "1", containerrestart.Exited)}, probing.Instance{ID: "2", Running: true, Started: at}},
		"ND-31 not yet started":  {[]cri.Container{container("app", "2", containerrestart.Created), container("app", "1", containerrestart.Exited)}, probing.Instance{}},
		"ND-31 an unknown state": {[]cri.Container{container("app", "1", containerrestart.Unknown)}, probing.Instance{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, instanceOf(tt.containers, "app")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzList: with any NodePodProbe, the agent does not panic, and every check goes to the IP address of the Pod.
func FuzzList(f *testing.F) {
	f.Add(`{"podProbes":[{"name":"x","namespace":"a","uid":"u","IP":"10.0.0.1","probes":[{"name":"m#p","containerName":"app","probe":{"httpGet":{"host":"10.9.9.9","port":"80","path":"//h/x"}}}]}]}`)
	f.Add(`{"podProbes":[{"uid":"u","IP":"::1","probes":[{"name":"","probe":{"grpc":{"port":80},"periodSeconds":-5}},{"probe":{"tcpSocket":{"port":0}}}]},{"uid":"u","IP":"10.0.0.2","probes":[null]}]}`)
	f.Add(`{"podProbes":{}}`)
	f.Fuzz(func(t *testing.T, spec string) {
		list := &v1alpha1.NodePodProbe{}
		if json.Unmarshal([]byte(spec), &list.Spec) != nil {
			t.Skip("no list")
		}
		now := time.Unix(1000, 0)
		entries := probes.Entries(&list.Spec)
		records := map[probing.Slot]probing.Record{}
		for _, target := range probing.Targets(entries, now) {
			step := probing.Next(&target, probing.Record{}, probing.Instance{ID: "i", Running: true, Started: now}, now.Add(time.Hour))
			if check := step.Record.Check; step.Why.Code == "" {
				address := check.TCP.Addr()
				if check.HTTP != nil {
					address = check.HTTP.Address.Addr()
				} else if check.GRPC.IsValid() {
					address = check.GRPC.Addr()
				}
				if want, err := netip.ParseAddr(target.IP); address.IsValid() && (err != nil || address != want.Unmap() && address != want) {
					t.Errorf("a check of %s goes to %s", target.IP, address)
				}
			}
			records[target.Slot()] = step.Record
		}
		out := probing.Publish(nil, entries, records, probing.Rhythm{}, time.Time{}, now)
		status := probes.StatusOf(out.Reports)
		if diff := cmp.Diff(len(out.Reports), len(probes.Reports(&status))); diff != "" {
			t.Error(diff)
		}
	})
}
