package sidecarcontrol

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// These are the values of a version annotation for a container before its first upgrade, and for an idle container.
const (
	firstVersion = "1"
	idleVersion  = "0"
)

// working maps the name of each hot sidecar (see "Hot upgrades" in the package comment) to the name of its working
// container.
type working map[string]string

func readWorking(annotations map[string]string, keys *Keys) (working, error) {
	w := working{}
	text := annotations[keys.Hot.WorkingAnnotation]
	if text == "" {
		return w, nil
	}
	if err := json.Unmarshal([]byte(text), &w); err != nil || w == nil {
		return nil, reason.Reason{
			Code: UnreadableRecord, Path: "metadata.annotations[" + keys.Hot.WorkingAnnotation + "]", New: reason.Shorten(text, 100),
			Detail: "is no JSON object of texts", Remedy: "correct the annotation",
		}
	}
	return w, nil
}

func (w working) into(annotations map[string]string, keys *Keys) error {
	raw, err := json.Marshal(w)
	annotations[keys.Hot.WorkingAnnotation] = string(raw)
	return err
}

// addTwin makes a container a twin of a hot sidecar: the first twin is working, the second is idle.
func (d *draft) addTwin(set *Set, s *sidecar, c *corev1.Container, twin int) {
	keys := &d.control.keys.Hot
	if *keys == (HotKeys{}) {
		d.refuse(InvalidConfig, s.path+".hot", "the set "+set.spec.Name+" is upgraded without a gap, and there are no names for that")
		return
	}
	version, alt := firstVersion, idleVersion
	if twin == 1 {
		c.Image, version, alt = s.Hot.EmptyImage, idleVersion, firstVersion
	} else {
		if d.hot == nil {
			d.hot = map[string]string{}
		}
		d.hot[s.Name] = c.Name
	}
	c.Env = appendEnv(c.Env, []corev1.EnvVar{
		fromAnnotation(keys.VersionEnv, keys.VersionPrefix+c.Name), fromAnnotation(keys.VersionAltEnv, keys.VersionAltPrefix+c.Name),
	})
	d.annotations[keys.VersionPrefix+c.Name], d.annotations[keys.VersionAltPrefix+c.Name] = version, alt
}

func fromAnnotation(name, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + key + "']"},
	}}
}

// pair is a hot sidecar in a Pod: two containers, of which one is working.
type pair struct {
	s       *sidecar
	twins   [2]twin
	working int
}

// twin is one of the two containers of a pair.
type twin struct {
	name, image string
	// isEmpty says that the twin is idle according to its version annotation. The twin's image does not show whether
	// the twin is idle, because the set may have a different empty image by now. settled says that the twin runs the
	// image of its spec and is ready.
	isEmpty, settled bool
}

// move is the next action on a pair.
type move int

const (
	// stay changes nothing, because the working twin has the wanted image already.
	stay move = iota
	// start gives the target the new image and makes the target the working twin. From then on, both twins run a real
	// image.
	start
	// turnBack gives the target the empty image. The other twin still has the wanted image and becomes the working twin
	// again.
	turnBack
)

// target returns the index of the twin that gets the new image. The first rule below that applies decides.
func (p *pair) target() int {
	for _, rule := range []struct {
		applies bool
		target  int
	}{
		{p.twins[0].isEmpty, 0},
		{p.twins[1].isEmpty, 1},
		{p.twins[0].settled && !p.twins[1].settled, 1},
		{p.twins[1].settled && !p.twins[0].settled, 0},
	} {
		if rule.applies {
			return rule.target
		}
	}
	return 1 - p.working
}

// next returns the move of an upgrade to the set's image, and the index of the target twin.
//
//	the second twin has it        the target is empty   move
//	yes                           yes                   stay
//	yes                           no                    turnBack
//	no                            either                start
func (p *pair) next() (move, int) {
	target := p.target()
	switch other := &p.twins[1-target]; {
	case other.image != p.s.Image:
		return start, target
	case p.twins[target].isEmpty:
		return stay, target
	}
	return turnBack, target
}

// idle returns the twin that is not the working twin.
func (p *pair) idle() *twin { return &p.twins[1-p.working] }

// isFlipping reports whether an upgrade has begun and has not ended: the idle twin still runs a real image.
func (p *pair) isFlipping() bool { return !p.idle().isEmpty }

// pairs returns the hot sidecars of a set in a Pod. ok is false if the Pod lacks a hot sidecar, or does not say which
// twin is working.
func (c *Control) pairs(pod *corev1.Pod, set *Set, settled func(*corev1.Container) bool) (pairs []pair, ok bool, err error) {
	var w working
	for i := range set.containers {
		s := &set.containers[i]
		if s.Hot == nil {
			continue
		}
		if w == nil {
			if w, err = readWorking(pod.Annotations, &c.keys); err != nil {
				return nil, false, err
			}
		}
		name, there := w[s.Name]
		p := pair{s: s, working: 1}
		if name == s.injectedNames()[0] {
			p.working = 0
		}
		for j, name := range s.injectedNames() {
			container := podstate.Container(pod, name)
			if container == nil || !there {
				return nil, false, nil
			}
			p.twins[j] = twin{name: name, image: container.Image, isEmpty: pod.Annotations[c.keys.Hot.VersionPrefix+name] == idleVersion, settled: settled(container)}
		}
		pairs = append(pairs, p)
	}
	return pairs, true, nil
}

// othersFlip reports whether a hot upgrade of another set is in progress, so that a container will restart at the end
// of the upgrade: an idle twin still has a version.
func (c *Control) othersFlip(pod *corev1.Pod, set *Set) bool {
	w, err := readWorking(pod.Annotations, &c.keys)
	if err != nil {
		return false
	}
	for name, works := range w {
		isOwn := func(s sidecar) bool { return s.Hot != nil && s.Name == name }
		if slices.ContainsFunc(set.containers, isOwn) {
			continue
		}
		twins := twinsOf(name)
		if podstate.Container(pod, twins[0]) == nil || podstate.Container(pod, twins[1]) == nil {
			continue // the pair needs no upgrade
		}
		for _, twin := range twins {
			if version := pod.Annotations[c.keys.Hot.VersionPrefix+twin]; twin != works && version != "" && version != idleVersion {
				return true
			}
		}
	}
	return false
}

// twinsOf returns the names of the two containers of a hot sidecar.
func twinsOf(name string) []string { return []string{name + "-1", name + "-2"} }

// isIdle reports whether a container is the idle twin of one of the pairs.
func isIdle(pairs []pair, container string) bool {
	return slices.ContainsFunc(pairs, func(p pair) bool { return p.idle().name == container })
}
