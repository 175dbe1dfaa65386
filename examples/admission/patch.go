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

// patch collects JSON patch operations for the JSON object that the API server has sent. The operations are the
// differences between two typed objects: before and after the change by admission. The typed objects lack fields that
// the Go types do not have, and contain zero values that the JSON object does not have; the patch changes neither.
type patch []operation

// annotationsPath is the only path below which the patch may remove values: conversion stores fields in annotations,
// and the fields may become obsolete.
const annotationsPath = "/metadata/annotations"

// object compares the objects at path, before and after the change; sent is the JSON object at path that the API
// server has sent.
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

// value adds the operations that change the value at path from was to is. sent is the JSON value that the API server
// has sent, or nil.
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
	// For an existing key of an object, add replaces the value.
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

// escape encodes a key for a JSON pointer.
func escape(key string) string {
	if !strings.ContainsAny(key, "~/") {
		return key
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
