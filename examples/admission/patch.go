package admission

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// operation is one of RFC 6902.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch collects the operations that make the same change to an object as it was sent that was made between two typed
// readings of it, before and after. The two know fewer fields than the object may have and show zero values that it lacks;
// neither appears in the patch.
type patch []operation

// annotationsPath is the only place where a comparison may remove something: conversion keeps notes there that get out of date.
const annotationsPath = "/metadata/annotations"

// object compares what is below path, where an object was sent.
func (p *patch) object(path string, sent, before, after map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(after)) {
		was, had := before[key]
		if is := after[key]; !had || !reflect.DeepEqual(was, is) {
			p.value(path+"/"+escape(key), sent[key], was, is)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		_, kept := after[key]
		_, there := sent[key]
		if at := path + "/" + escape(key); !kept && there && (path == annotationsPath || at == annotationsPath) {
			*p = append(*p, operation{Op: "remove", Path: at})
		}
	}
}

// value makes what is at path, sent if it is there, into is as far as it differs from was.
func (p *patch) value(path string, sent, was, is any) {
	switch is := is.(type) {
	case map[string]any:
		was, _ := was.(map[string]any)
		if sent, ok := sent.(map[string]any); ok {
			p.object(path, sent, was, is)
			return
		}
	case []any:
		was, _ := was.([]any)
		if sent, ok := sent.([]any); ok && len(sent) == len(was) && len(was) <= len(is) {
			p.list(path, sent, was, is)
			return
		}
	}
	// On a member of an object that is there already, this replaces.
	*p = append(*p, operation{Op: "add", Path: path, Value: is})
}

// list compares element by element; what is beyond the ones that were there is appended.
func (p *patch) list(path string, sent, was, is []any) {
	for i := range was {
		if reflect.DeepEqual(was[i], is[i]) {
			continue
		}
		at := path + "/" + strconv.Itoa(i)
		if _, ok := sent[i].(map[string]any); ok {
			p.value(at, sent[i], was[i], is[i])
		} else {
			*p = append(*p, operation{Op: "replace", Path: at, Value: is[i]})
		}
	}
	for _, element := range is[len(was):] {
		*p = append(*p, operation{Op: "add", Path: path + "/-", Value: element})
	}
}

// escape spells a key in a JSON pointer.
func escape(key string) string {
	if !strings.ContainsAny(key, "~/") {
		return key
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
