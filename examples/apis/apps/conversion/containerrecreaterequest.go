package conversion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const kindContainerRecreateRequest = "ContainerRecreateRequest"

// ContainerRecreateRequestToV1beta1 converts and restores the values kept by [ContainerRecreateRequestToV1alpha1]. The
// result shares no memory with src.
func ContainerRecreateRequestToV1beta1(src *v1alpha1.ContainerRecreateRequest) (*v1beta1.ContainerRecreateRequest, error) {
	return throughJSON[v1beta1.ContainerRecreateRequest](src, kindContainerRecreateRequest, v1alpha1.GroupVersion.String(), requestToBeta)
}

// ContainerRecreateRequestToV1alpha1 converts and restores the values kept by [ContainerRecreateRequestToV1beta1]. The
// result shares no memory with src. An error means: src was not decoded in full.
func ContainerRecreateRequestToV1alpha1(src *v1beta1.ContainerRecreateRequest) (*v1alpha1.ContainerRecreateRequest, error) {
	if len(src.Spec.Undecodable) > 0 {
		return nil, src.Spec.Undecodable[0]
	}
	return throughJSON[v1alpha1.ContainerRecreateRequest](src, kindContainerRecreateRequest, v1beta1.GroupVersion.String(), requestToAlpha)
}

// throughJSON converts an object with the converter of serialised objects, so a single way of conversion exists.
func throughJSON[D any](src any, kind, apiVersion string, convert func([]byte) ([]byte, error)) (*D, error) {
	tree := map[string]json.RawMessage{}
	encoded, err := json.Marshal(src)
	if err == nil {
		err = json.Unmarshal(encoded, &tree)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	for key, value := range map[string]string{"kind": kind, "apiVersion": apiVersion} {
		if tree[key], err = json.Marshal(value); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", key, err)
		}
	}
	if encoded, err = json.Marshal(tree); err == nil {
		encoded, err = convert(encoded)
	}
	if err != nil {
		return nil, err
	}
	dst := new(D)
	if err := utiljson.Unmarshal(encoded, dst); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	return dst, nil
}

func requestToBeta(object []byte) ([]byte, error) {
	return moveStatus(object, v1beta1.GroupVersion.String(), apps.AnnotationV1beta1Only, apps.AnnotationV1alpha1Only, plainRequestBeta, plainRequestAlpha)
}

func requestToAlpha(object []byte) ([]byte, error) {
	return moveStatus(object, v1alpha1.GroupVersion.String(), apps.AnnotationV1alpha1Only, apps.AnnotationV1beta1Only, plainRequestAlpha, plainRequestBeta)
}

// place is where conversion of a request finds or puts a value.
type place string

// The two annotations of v1alpha1, and the two matching fields of the v1beta1 status.
const (
	statusesPlace  place = metadataKey + "/annotations/" + apps.AnnotationRequestSyncContainerStatuses
	unreadyPlace   place = metadataKey + "/annotations/" + apps.AnnotationRequestUnreadyAcquired
	snapshotPlace  place = statusKey + "/containerStatusSnapshot"
	conditionPlace place = statusKey + "/conditions"
	// phasePlace is the same in both versions. A v1beta1 status must have a phase: conversion adds nothing to a status
	// without a phase.
	phasePlace place = statusKey + "/phase"
)

func requestPlaces() [4]place {
	return [...]place{statusesPlace, unreadyPlace, snapshotPlace, conditionPlace}
}

// path is the path of a kept field. Keys of annotations have slashes, too.
func (p place) path() []string {
	if p.isInStatus() {
		return strings.SplitN(string(p), "/", 2)
	}
	return strings.SplitN(string(p), "/", 3)
}

// key is the last step of the path.
func (p place) key() string {
	path := p.path()
	return path[len(path)-1]
}

func (p place) isInStatus() bool { return strings.HasPrefix(string(p), statusKey) }

// values are the values in the places, as JSON. An empty place has no entry.
type values map[place]json.RawMessage

// shared returns the values possible in both versions.
func (v values) shared() values {
	return values{statusesPlace: v[statusesPlace], unreadyPlace: v[unreadyPlace], phasePlace: v[phasePlace]}
}

// moveStatus converts a serialised request. plain makes the values of the wanted version, and back the values of the
// source version; both ignore notes. restored and written are the annotations of the note read and of the note left.
func moveStatus(object []byte, apiVersion, restored, written string, plain, back func(values) values) ([]byte, error) {
	r, err := readRequest(object)
	if err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	kept := takeNote(&r.meta, restored)
	dropAnnotation(&r.meta, written)
	truth := r.values()
	made := plain(truth)
	for _, field := range kept.Fields {
		made.restore(field)
	}
	r.set(made)
	var left note
	if left.Fields = difference(truth, back(made)); len(left.Fields) > 0 {
		if err := left.write(&r.meta, written); err != nil {
			return nil, fmt.Errorf("keeping what %s has no place for: %w", apiVersion, err)
		}
	}
	return r.in(apiVersion)
}

// plainRequestBeta moves the annotations' values into the status.
func plainRequestBeta(from values) values {
	to := from.shared()
	if textOf(from[phasePlace]) == "" {
		return to.withoutNothing()
	}
	if statuses := readStatuses(textOf(from[statusesPlace])); statuses != nil {
		delete(to, statusesPlace)
		to[snapshotPlace] = encodedValue(statuses)
	}
	if since := readInstant(textOf(from[unreadyPlace])); since != nil {
		delete(to, unreadyPlace)
		to[conditionPlace] = encodedValue([]metav1.Condition{{
			Type: apps.ConditionPreRecreateGrace, Status: metav1.ConditionTrue, Reason: apps.ConditionPreRecreateGrace, LastTransitionTime: metav1.NewTime(*since),
		}})
	}
	return to.withoutNothing()
}

// plainRequestAlpha moves values with room in annotations out of the status. Annotations show the values in effect: a
// contradicting annotation goes, and an unreadable annotation stays.
func plainRequestAlpha(from values) values {
	to := from.shared()
	if statuses := readStatuses(string(from[snapshotPlace])); statuses != nil {
		to[statusesPlace] = encodedValue(string(encodedValue(statuses)))
	} else if readStatuses(textOf(from[statusesPlace])) != nil {
		delete(to, statusesPlace)
	}
	if since := graceSince(from[conditionPlace]); since != nil {
		to[unreadyPlace] = encodedValue(since.UTC().Format(time.RFC3339))
	} else if readInstant(textOf(from[unreadyPlace])) != nil {
		delete(to, unreadyPlace)
	}
	return to.withoutNothing()
}

// readStatuses returns nil for an invalid or empty list of containers.
func readStatuses(text string) []v1beta1.ContainerRecreateRequestContainerStatus {
	var statuses []v1beta1.ContainerRecreateRequestContainerStatus
	if json.Unmarshal([]byte(text), &statuses) != nil || len(statuses) == 0 {
		return nil
	}
	return statuses
}

// readInstant returns nil for an invalid time, and for the zero time.
func readInstant(text string) *time.Time {
	instant, err := time.Parse(time.RFC3339, text)
	if err != nil || instant.IsZero() {
		return nil
	}
	return &instant
}

// condition is a [metav1.Condition] with a possibly invalid time.
type condition struct {
	Type, Status, Reason, Message string

	LastTransitionTime string
	ObservedGeneration int64
}

// readConditions returns nil for an invalid list of conditions.
func readConditions(raw json.RawMessage) (conditions []condition) {
	if json.Unmarshal(raw, &conditions) != nil {
		return nil
	}
	return conditions
}

// graceSince returns the time of the condition with an annotation in v1alpha1, or nil.
func graceSince(raw json.RawMessage) *time.Time {
	for _, c := range readConditions(raw) {
		if c.Type == apps.ConditionPreRecreateGrace && c.Status == string(metav1.ConditionTrue) {
			return readInstant(c.LastTransitionTime)
		}
	}
	return nil
}

// difference returns the values of truth lost in back.
func difference(truth, back values) (fields []keptField) {
	for _, p := range requestPlaces() {
		if !sameValue(truth[p], back[p]) {
			fields = append(fields, keptField{Path: p.path(), Shown: back[p], Kept: truth[p]})
		}
	}
	return fields
}

// restore puts a kept value back if the values behind the field are untouched. Any user may write notes, so the kept
// value must have the right type.
func (v values) restore(k keptField) {
	for _, p := range requestPlaces() {
		if !slices.Equal(p.path(), k.Path) || !sameValue(v[p], k.Shown) || p.isInStatus() && textOf(v[phasePlace]) == "" {
			continue
		}
		switch {
		case decoded(k.Kept) == nil:
			delete(v, p)
		case p.takes(k.Kept):
			v[p] = k.Kept
		}
	}
}

// takes reports whether the API server would take a value in the place.
func (p place) takes(raw json.RawMessage) bool {
	switch p {
	case snapshotPlace:
		var statuses []v1beta1.ContainerRecreateRequestContainerStatus
		return json.Unmarshal(raw, &statuses) == nil
	case conditionPlace:
		for _, c := range readConditions(raw) {
			if readInstant(strings.ToUpper(c.LastTransitionTime)) == nil { // the schema accepts small letters
				return false
			}
		}
		return bytes.Equal(bytes.TrimSpace(raw), []byte("[]")) || readConditions(raw) != nil
	default:
		_, isText := decoded(raw).(string)
		return isText
	}
}

// withoutNothing drops entries without a value.
func (v values) withoutNothing() values {
	maps.DeleteFunc(v, func(_ place, raw json.RawMessage) bool { return decoded(raw) == nil })
	return v
}

// sameValue compares JSON by meaning. Large numbers count to the last digit.
func sameValue(a, b json.RawMessage) bool { return reflect.DeepEqual(exactly(a), exactly(b)) }

func exactly(raw json.RawMessage) any {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil
	}
	return value
}

// textOf returns the text of a JSON string, or "".
func textOf(raw json.RawMessage) string {
	text, _ := decoded(raw).(string)
	return text
}

// encodedValue is for encodable values.
func encodedValue(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return raw
}

// request is a serialised ContainerRecreateRequest, split into the parts read by conversion.
type request struct {
	parts

	meta   metav1.ObjectMeta // annotations alone
	status map[string]json.RawMessage
}

func readRequest(object []byte) (*request, error) {
	whole, err := split(object)
	if err != nil {
		return nil, err
	}
	r := &request{parts: whole, status: map[string]json.RawMessage{}}
	if raw, ok := whole.metadata["annotations"]; ok {
		if err := json.Unmarshal(raw, &r.meta.Annotations); err != nil {
			return nil, fmt.Errorf("%s.annotations: %w", metadataKey, err)
		}
	}
	if raw := whole.all[statusKey]; decoded(raw) != nil {
		if err := json.Unmarshal(raw, &r.status); err != nil {
			return nil, fmt.Errorf("%s: %w", statusKey, err)
		}
	}
	return r, nil
}

// values are the object's.
func (r *request) values() values {
	v := values{phasePlace: r.status[phasePlace.key()]}
	for _, p := range requestPlaces() {
		if p.isInStatus() {
			v[p] = r.status[p.key()]
		} else if text, ok := r.meta.Annotations[p.key()]; ok {
			v[p] = encodedValue(text)
		}
	}
	return v.withoutNothing()
}

// set writes the values into the object, and drops values without room in annotations: every stored object can be
// converted.
func (r *request) set(v values) {
	for _, p := range requestPlaces() {
		raw, ok := v[p]
		text := textOf(raw)
		switch {
		case p.isInStatus() && ok:
			r.status[p.key()] = raw
		case p.isInStatus():
			delete(r.status, p.key())
		case !ok:
			dropAnnotation(&r.meta, p.key())
		case hasRoom(r.meta.Annotations, p.key(), text):
			annotate(&r.meta, p.key(), text)
		default:
			delete(v, p)
			dropAnnotation(&r.meta, p.key())
		}
	}
}

// in returns the object put together again, in a version.
func (r *request) in(apiVersion string) ([]byte, error) {
	delete(r.metadata, "annotations")
	if len(r.meta.Annotations) > 0 {
		r.metadata["annotations"] = encodedValue(r.meta.Annotations)
	}
	if len(r.status) > 0 {
		r.all[statusKey] = encodedValue(r.status)
	}
	return r.parts.in(apiVersion)
}

// requestParts returns the values kept in annotations. The status is not subject to admission.
func requestParts(object []byte, _ string) (map[string]any, error) {
	r, err := readRequest(object)
	if err != nil {
		return nil, err
	}
	v := r.values()
	return map[string]any{metadataKey + ".annotations": []any{decoded(v[statusesPlace]), decoded(v[unreadyPlace])}}, nil
}
