package admission

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// operation is an operation of RFC 6902.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch collects operations for an object as sent. The operations repeat the change between two typed readings of the
// object, before and after. The readings know fewer fields than the object may have and show zero values missing in the
// object; neither appears in the patch.
type patch []operation

// annotationsPath is the only place for removals by a comparison: conversion keeps notes there, and notes become
// obsolete.
const annotationsPath = "/metadata/annotations"

// object compares the values below path, for an object sent.
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

// value changes the value at path to match is, as far as is differs from was. sent is the sent value, if any.
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
	// On an existing member of an object, add replaces.
	*p = append(*p, operation{Op: "add", Path: path, Value: is})
}

// list compares element by element, and appends further elements.
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
