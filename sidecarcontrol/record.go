package sidecarcontrol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/reason"
)

// record is the entry of a single set in a Pod's annotation. The JSON has OpenKruise's format.
type record struct {
	UpdateTimestamp    metav1.Time `json:"updateTimestamp"`
	Hash               string      `json:"hash"`
	SidecarSetName     string      `json:"sidecarSetName"`
	SidecarList        []string    `json:"sidecarList"`
	ControllerRevision string      `json:"controllerRevision,omitempty"`
}

// records are the content of a Pod's annotation, by set. Records of other sets are kept unchanged.
type records map[string]json.RawMessage

// readRecords parses an annotation. A missing annotation counts as empty.
func readRecords(annotations map[string]string, key string) (records, error) {
	text := annotations[key]
	if text == "" {
		return records{}, nil
	}
	var r records
	if err := json.Unmarshal([]byte(text), &r); err != nil || r == nil {
		return nil, reason.Reason{
			Code: UnreadableRecord, Path: "metadata.annotations[" + key + "]", New: reason.Shorten(text, 100),
			Detail: "is no JSON object", Remedy: "remove the annotation",
		}
	}
	return r, nil
}

// of returns the record of a set, or the zero value if the record is missing or cannot be parsed. Early releases of
// OpenKruise recorded only the hash, as a JSON string.
func (r records) of(set string) (out record) {
	raw, ok := r[set]
	if !ok || json.Unmarshal(raw, &out) == nil {
		return out
	}
	out = record{SidecarSetName: set}
	_ = json.Unmarshal(raw, &out.Hash) // if the record is neither an object nor a hash, the hash stays empty
	return out
}

// put writes the record of a set, unless only the time differs.
func (r records) put(set string, next record) error {
	was := r.of(set)
	if was.Hash == next.Hash && was.ControllerRevision == next.ControllerRevision && slices.Equal(was.SidecarList, next.SidecarList) &&
		was.SidecarSetName == next.SidecarSetName {
		return nil
	}
	raw, err := json.Marshal(next)
	r[set] = raw
	return err
}

func (r records) String() (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(map[string]json.RawMessage(r))
	return strings.TrimSuffix(out.String(), "\n"), err
}

// records returns the records for both hash annotations of a Pod that has the set.
func (s *Set) records(now time.Time) (with, without record) {
	// The time is in UTC and whole seconds, as read from the API server.
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	with = record{
		UpdateTimestamp: at, Hash: s.spec.Hash, SidecarSetName: s.spec.Name, SidecarList: s.names, ControllerRevision: s.spec.Revision,
	}
	without = record{UpdateTimestamp: at, Hash: s.spec.HashWithoutImages, SidecarSetName: s.spec.Name, SidecarList: s.names}
	return with, without
}

// recordIn writes the records of sets into annotations.
func (k *Keys) recordIn(annotations map[string]string, sets []*Set, now time.Time) error {
	hashes, err := readRecords(annotations, k.HashAnnotation)
	if err != nil {
		return err
	}
	withoutImages, err := readRecords(annotations, k.HashWithoutImagesAnnotation)
	if err != nil {
		return err
	}
	for _, set := range sets {
		with, without := set.records(now)
		if err := hashes.put(set.spec.Name, with); err != nil {
			return err
		}
		if err := withoutImages.put(set.spec.Name, without); err != nil {
			return err
		}
	}
	if annotations[k.HashAnnotation], err = hashes.String(); err != nil {
		return err
	}
	annotations[k.HashWithoutImagesAnnotation], err = withoutImages.String()
	return err
}

// maxSets is the largest number of sets that a Pod may name. Everybody who may write Pods can write the list, and
// every name costs memory in every program that watches Pods.
const maxSets = 100

// Injected returns the sorted names of the sets injected into a Pod, according to the Pod's annotation. If a Pod has
// more than 100 names, the result is empty.
func (c *Control) Injected(pod *corev1.Pod) []string {
	list := pod.Annotations[c.keys.InjectedAnnotation]
	if strings.Count(list, ",") >= maxSets {
		return nil
	}
	return namesIn(list)
}

func namesIn(list string) []string {
	if list == "" {
		return nil
	}
	names := strings.Split(list, ",")
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// RevisionOf returns the revision of a set recorded on a Pod, empty if the Pod has no record of the set.
func (c *Control) RevisionOf(pod *corev1.Pod, set string) string {
	r, err := readRecords(pod.Annotations, c.keys.HashAnnotation)
	if err != nil {
		return ""
	}
	return r.of(set).ControllerRevision
}

// record writes the annotations that record the injected sets.
func (d *draft) record(now time.Time) {
	keys := &d.control.keys
	d.addProblems(podObject(d.pod), "", keys.recordIn(d.annotations, d.sets, now))
	names := namesIn(d.annotations[keys.InjectedAnnotation])
	for _, set := range d.sets {
		names = append(names, set.spec.Name)
	}
	slices.Sort(names)
	d.annotations[keys.InjectedAnnotation] = strings.Join(slices.Compact(names), ",")
	if len(d.hot) == 0 {
		return
	}
	working, err := readWorking(d.annotations, keys)
	d.addProblems(podObject(d.pod), "", err)
	if err != nil {
		return
	}
	maps.Copy(working, d.hot)
	d.addProblems(podObject(d.pod), "", working.into(d.annotations, keys))
}

// addProblems adds the reasons of an error about an object: the Pod, or the set that caused the error. path is prefixed
// to the paths of the error.
func (d *draft) addProblems(about reason.Object, path string, err error) {
	var list reason.List
	list.Add(UnreadableRecord, err)
	for _, problem := range list {
		problem.Object = about
		if path != "" {
			problem.Path = strings.TrimSuffix(path+"."+problem.Path, ".")
		}
		d.problems = append(d.problems, problem)
	}
}

// patch adds the set's annotations to a Pod's annotations, and returns a reason for each annotation that cannot be
// added.
func (s *Set) patch(annotations map[string]string, pod reason.Object) (problems reason.List) {
	for i := range s.spec.Annotations {
		patch := &s.spec.Annotations[i]
		for _, key := range slices.Sorted(maps.Keys(patch.Annotations)) {
			value, err := patch.Policy.apply(annotations, key, patch.Annotations[key])
			if err != nil {
				problems = append(problems, reason.Reason{
					Code: InvalidPatch, Object: pod, Path: "metadata.annotations[" + key + "]",
					Detail: fmt.Sprintf("the set %s cannot merge its value: %v", s.spec.Name, err),
				})
				continue
			}
			annotations[key] = value
		}
	}
	return problems
}

// apply returns the value of an annotation after applying the policy.
func (p PatchPolicy) apply(annotations map[string]string, key, value string) (string, error) {
	was, there := annotations[key]
	switch {
	case p == Overwrite, !there:
		return value, nil
	case p != MergePatchJSON:
		return was, nil
	case was == "":
		return value, nil
	}
	merged, err := jsonpatch.MergePatch([]byte(was), []byte(value))
	return string(merged), err
}
