// Package audit answers "which client has sent which request to the API server?". The package reads the audit log of
// a control plane, which has a JSON object per line.
package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"
)

// Request is a request that the API server has answered.
type Request struct {
	// Verb is the API verb: get, list, watch, create, update, patch, delete, deletecollection.
	Verb string
	// Resource is the plural name, followed by a slash and the subresource if any: pods/status.
	Resource string
	// Namespace and Name are empty if the request had none.
	Namespace, Name string
	// User is the authenticated user: a component, or system:serviceaccount:NAMESPACE:NAME.
	User      string
	UserAgent string
	// Code is the HTTP status code of the response.
	Code int
	// DryRun is set for dry runs, which change nothing.
	DryRun bool
	// Received is the time when the API server received the request. The log lists requests in the order of their
	// responses. A request appears in the log slightly after its result is visible to other clients.
	Received time.Time
}

// IsWrite reports whether the request could have changed an object.
func (r Request) IsWrite() bool {
	return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" && !r.DryRun
}

// String renders verb, resource, dry run and, for a failed request, the code: "patch pods/status (409)", "patch
// pods/resize (dry run)".
func (r Request) String() string {
	out := r.Verb + " " + r.Resource
	if r.DryRun {
		out += " (dry run)"
	}
	if r.Code >= 300 {
		out += fmt.Sprintf(" (%d)", r.Code)
	}
	return out
}

// Read returns the requests that follow an offset in the log and whose user agent begins with agent, and the offset for
// the next call. An incomplete last line is left for the next call.
func Read(path string, offset int64, agent string) (requests []Request, next int64, err error) {
	return Select(path, offset, func(r Request) bool { return strings.HasPrefix(r.UserAgent, agent) })
}

// Select is like Read, but keep decides which requests are returned, for example the requests of a user.
func Select(path string, offset int64, keep func(Request) bool) (requests []Request, next int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, offset, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, offset, fmt.Errorf("reading the audit log from %d: %w", offset, err)
	}
	reader := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return requests, offset, nil
		}
		if err != nil {
			return requests, offset, fmt.Errorf("reading the audit log: %w", err)
		}
		offset += int64(len(line))
		var e struct {
			Verb, UserAgent string
			RequestURI      string
			User            struct{ Username string }
			ObjectRef       struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus  struct{ Code int }
			Received        time.Time `json:"requestReceivedTimestamp"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return requests, offset, fmt.Errorf("audit log, line that ends at %d: %w", offset, err)
		}
		request := Request{
			Verb: e.Verb, Resource: e.ObjectRef.Resource, Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
			User: e.User.Username, UserAgent: e.UserAgent, Code: e.ResponseStatus.Code,
			DryRun: isDryRun(e.RequestURI), Received: e.Received,
		}
		if e.ObjectRef.Subresource != "" {
			request.Resource += "/" + e.ObjectRef.Subresource
		}
		if keep(request) {
			requests = append(requests, request)
		}
	}
}

// End returns the offset after the last complete line, for reading later requests. End reads only the end of the file.
func End(path string) (offset int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	offset, err = file.Seek(0, io.SeekEnd)
	block := make([]byte, 64<<10)
	for err == nil && offset > 0 {
		begin := max(0, offset-int64(len(block)))
		part := block[:offset-begin]
		if _, err = file.ReadAt(part, begin); err != nil {
			break
		}
		if last := bytes.LastIndexByte(part, '\n'); last >= 0 {
			return begin + int64(last) + 1, nil
		}
		offset = begin
	}
	if err != nil {
		return 0, fmt.Errorf("reading the end of the audit log: %w", err)
	}
	return 0, nil
}

// isDryRun reports whether the URI of a request asks for a dry run.
func isDryRun(uri string) bool {
	parsed, err := url.ParseRequestURI(uri)
	return err == nil && parsed.Query().Has("dryRun")
}
