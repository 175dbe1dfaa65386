package inplaceupdate

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

// annotation returns the value under a key of the Pod's annotations, or under the legacy key if the key is missing.
func annotation(pod *corev1.Pod, key, legacy string) (raw, found string, ok bool) {
	if raw, ok = pod.Annotations[key]; ok {
		return raw, key, true
	}
	if legacy != "" {
		if raw, ok = pod.Annotations[legacy]; ok {
			return raw, legacy, true
		}
	}
	return "", "", false
}

func (k *Keys) stateOf(pod *corev1.Pod) (raw, key string, ok bool) {
	return annotation(pod, k.StateAnnotation, k.LegacyStateAnnotation)
}

func (k *Keys) graceOf(pod *corev1.Pod) (raw, key string, ok bool) {
	return annotation(pod, k.GraceAnnotation, k.LegacyGraceAnnotation)
}

// readState returns the Pod's whole state, nil if the Pod has none.
func (k *Keys) readState(pod *corev1.Pod) (*savedState, error) {
	raw, key, ok := k.stateOf(pod)
	if !ok {
		return nil, nil
	}
	saved := &savedState{}
	if err := decode.Object([]byte(raw), saved); err != nil {
		return nil, unreadable(pod, key, raw, err)
	}
	return saved, nil
}

// whole returns the whole state, nil if the Pod has none. The first call reads the annotation.
func (v *view) whole() (*savedState, error) {
	if v.saved != nil {
		return v.saved, nil
	}
	saved, err := v.config.Keys.readState(v.pod)
	if saved != nil {
		v.saved, v.state = saved, &saved.progress
	}
	return saved, err
}

// readProgress reads the part of the state needed for completion. The history of batches and images is the largest part
// of most states. readProgress reads the known images only if they matter, and never the batches.
func (v *view) readProgress() error {
	raw, key, ok := v.config.Keys.stateOf(v.pod)
	if !ok {
		return nil
	}
	if text, ok := appendLean(v.text[:0], raw); ok && decode.Object(text, &v.lean) == nil {
		if v.state = &v.lean; !v.needsMemory(raw) {
			return nil
		}
	}
	v.lean = progress{}
	if err := decode.Object(append(v.text[:0], raw...), &v.lean); err != nil {
		return unreadable(v.pod, key, raw, err)
	}
	v.state = &v.lean
	return nil
}

// needsMemory reports whether the known images may say more about a container than the container's image. raw is the
// whole state.
func (v *view) needsMemory(raw string) bool {
	for i := range v.containers {
		c := &v.containers[i]
		if _, recorded := c.record(); !recorded || c.spec == nil || c.status == nil {
			continue
		}
		if !named(c.spec.Image, c.status) || (c.status.ContainerID != "" && strings.Contains(raw, c.status.ContainerID)) {
			return true
		}
	}
	return false
}

// recordKey and knownImagesKey begin the last two values of a state, in that order. OpenKruise writes only recordKey.
const (
	recordKey      = `,"containerBatchesRecord":`
	knownImagesKey = `,"knownImages":`
)

// appendLean appends a state to buffer without its history: the values of recordKey and knownImagesKey. ok is false
// unless the state ends with at least one of both keys.
func appendLean(buffer []byte, raw string) (text []byte, ok bool) {
	at := strings.Index(raw, recordKey)
	if at < 0 {
		at = strings.Index(raw, knownImagesKey)
	}
	if at < 0 {
		return nil, false
	}
	rest, hasRecord := afterValue(raw[at:], recordKey)
	rest, hasMemory := afterValue(rest, knownImagesKey)
	if rest != "}" || !hasRecord && !hasMemory {
		return nil, false
	}
	return append(append(buffer, raw[:at]...), '}'), true
}

// afterValue returns the text behind a key and its value, an object or array. If the text does not begin with the key,
// afterValue returns all of the text.
func afterValue(text, key string) (rest string, found bool) {
	value, found := strings.CutPrefix(text, key)
	if !found {
		return text, false
	}
	depth, quoted := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth == 0 {
				return value[i+1:], true
			}
		}
	}
	return text, false
}

// readGrace reads the change held back until the end of a grace period.
func (v *view) readGrace() error {
	raw, key, ok := v.config.Keys.graceOf(v.pod)
	if !ok {
		return nil
	}
	v.grace = &savedGrace{}
	if err := decode.Object([]byte(raw), v.grace); err != nil {
		return unreadable(v.pod, key, raw, err)
	}
	return nil
}

// heldMetadata returns the metadata to write at the end of the grace period.
func (v *view) heldMetadata() (metadataPatch, error) {
	var meta metadataPatch
	if len(v.grace.MetaDataPatch) == 0 {
		return meta, nil
	}
	if err := decode.Object(v.grace.MetaDataPatch, &meta); err != nil {
		return meta, unreadable(v.pod, v.config.Keys.GraceAnnotation, string(v.grace.MetaDataPatch), err)
	}
	return meta, nil
}

func unreadable(pod *corev1.Pod, key, raw string, err error) error {
	return reason.Reason{
		Code: UnreadableState, Object: podObject(pod), Path: "metadata.annotations[" + key + "]",
		New: shorten(raw), Detail: err.Error(), Remedy: "correct or remove the annotation",
	}.With(err)
}

// putState adds the state to a change under the new name of the annotation.
func (v *view) putState(change *podpatch.Change, state *savedState) error {
	text, err := v.encodeState(state)
	if err != nil {
		return err
	}
	change.Annotations[v.config.Keys.StateAnnotation] = text
	v.drop(change, v.config.Keys.LegacyStateAnnotation)
	return nil
}

// encodeState writes the known images last, where readProgress expects them.
func (v *view) encodeState(state *savedState) (*string, error) {
	known := state.KnownImages
	lean := *state
	lean.KnownImages = nil
	text, err := v.encode(&lean)
	if err != nil || len(known) == 0 {
		return text, err
	}
	memory, err := v.encode(known)
	if err != nil {
		return nil, err
	}
	whole := strings.TrimSuffix(*text, "}") + knownImagesKey + *memory + "}"
	return &whole, nil
}

func (v *view) encode(value any) (*string, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, v.unwritable(err)
	}
	text := string(raw)
	return &text, nil
}

// unwritable is the error for values of a plan without a form in JSON.
func (v *view) unwritable(err error) error {
	return reason.Reason{Code: InvalidArgument, Object: v.object(), Path: "plan", Detail: err.Error()}.With(err)
}
