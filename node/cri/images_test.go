package cri_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/node/pullsecret"
	"github.com/workloadkit/workloadkit/reason"
)

// pulled is a request as the runtime has received it.
type pulled struct {
	Image, User, Password, Identity, Registry string
	HasAuth                                   bool
	Labels, Annotations                       map[string]string
	HasSandbox                                bool
}

func (s *server) PullImage(_ context.Context, r *runtimev1.PullImageRequest) (*runtimev1.PullImageResponse, error) {
	auth, sandbox := r.GetAuth(), r.GetSandboxConfig()
	s.mu.Lock()
	s.pulls = append(s.pulls, pulled{
		Image: r.GetImage().GetImage(), HasAuth: auth != nil, User: auth.GetUsername(), Password: auth.GetPassword(),
		Identity: auth.GetIdentityToken(), Registry: auth.GetRegistryToken(),
		HasSandbox: sandbox.GetMetadata() != nil, Labels: sandbox.GetLabels(), Annotations: sandbox.GetAnnotations(),
	})
	s.mu.Unlock()
	switch r.GetImage().GetImage() {
	case "docker.io/library/absent:1":
		return nil, status.Error(codes.NotFound, "no such image")
	case "docker.io/library/closed:1":
		return nil, status.Error(codes.PermissionDenied, "denied")
	case "docker.io/library/BAD:1":
		return nil, status.Error(codes.InvalidArgument, "invalid reference format")
	}
	return &runtimev1.PullImageResponse{ImageRef: "sha256:9"}, nil
}

func (s *server) ImageFsInfo(context.Context, *runtimev1.ImageFsInfoRequest) (*runtimev1.ImageFsInfoResponse, error) {
	answer := &runtimev1.ImageFsInfoResponse{}
	for _, directory := range s.directories {
		answer.ImageFilesystems = append(answer.ImageFilesystems, &runtimev1.FilesystemUsage{FsId: &runtimev1.FilesystemIdentifier{Mountpoint: directory}})
	}
	return answer, nil
}

func TestPull(t *testing.T) {
	for _, test := range []struct {
		name    string
		request cri.PullRequest
		want    pulled
		id      string
		code    codes.Code
		final   bool
	}{
		{
			name: "ND-16 without credential, with an empty sandbox", request: cri.PullRequest{Image: "docker.io/library/a:1"},
			want: pulled{Image: "docker.io/library/a:1", HasSandbox: true}, id: "sha256:9",
		},
		{
			name: "ND-64 all kinds of credentials, and the sandbox's metadata",
			request: cri.PullRequest{
				Image: "r.io/a:1", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"n": "2"},
				Credential: &pullsecret.Credential{Username: "u", Password: "p", IdentityToken: "i", RegistryToken: "r"},
			},
			want: pulled{
				Image: "r.io/a:1", HasAuth: true, User: "u", Password: "p", Identity: "i", Registry: "r",
				HasSandbox: true, Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"n": "2"},
			},
			id: "sha256:9",
		},
		{
			name: "ND-13 an absent image is tried again", request: cri.PullRequest{Image: "docker.io/library/absent:1"},
			want: pulled{Image: "docker.io/library/absent:1", HasSandbox: true}, code: codes.NotFound,
		},
		{
			name: "ND-13 a refused credential is tried again", request: cri.PullRequest{Image: "docker.io/library/closed:1"},
			want: pulled{Image: "docker.io/library/closed:1", HasSandbox: true}, code: codes.PermissionDenied,
		},
		{
			name: "an invalid name is final", request: cri.PullRequest{Image: "docker.io/library/BAD:1"},
			want: pulled{Image: "docker.io/library/BAD:1", HasSandbox: true}, code: codes.InvalidArgument, final: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, s := socket(t), &server{name: "containerd"}
			serve(t, path, s)
			id, err := connect(t, path).Pull(t.Context(), test.request)
			if id != test.id || status.Code(err) != test.code || reason.IsFinal(err) != test.final {
				t.Errorf("%q, %v (final: %v)", id, err, reason.IsFinal(err))
			}
			if diff := cmp.Diff([]pulled{test.want}, s.pulls); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImageDirectory(t *testing.T) {
	for _, test := range []struct {
		directories []string
		want        string
		fails       bool
	}{
		{directories: []string{"", "/var/lib/containerd"}, want: "/var/lib/containerd"},
		{fails: true},
	} {
		path, s := socket(t), &server{name: "containerd", directories: test.directories}
		serve(t, path, s)
		got, err := connect(t, path).ImageDirectory(t.Context())
		if got != test.want || (err != nil) != test.fails || err != nil && reason.From(err)[0].Code != cri.NoImageDirectory {
			t.Errorf("%q: %q, %v", test.directories, got, err)
		}
	}
}

// TestImagesOfFirst: a Node may have two runtimes, and calls for images go to the first runtime that responds.
func TestImagesOfFirst(t *testing.T) {
	silent, path := socket(t), socket(t)
	s := &server{name: "containerd", directories: []string{"/images"}}
	stop := serve(t, path, s)
	r := cri.NewRuntimes(func() []string { return []string{silent, path} })
	if _, err := r.Images(t.Context()); len(reason.From(err)) != 1 || reason.From(err)[0].Code != cri.NoRuntime {
		t.Errorf("before the first search: %v", err)
	}
	r.Look(t.Context())
	images, err := r.Images(t.Context())
	if len(images) != 1 || err != nil {
		t.Errorf("images %v, %v", images, err)
	}
	if directory, err := r.ImageDirectory(t.Context()); directory != "/images" || err != nil {
		t.Errorf("directory %q, %v", directory, err)
	}
	if id, err := r.Pull(t.Context(), cri.PullRequest{Image: "a:1"}); id != "sha256:9" || err != nil {
		t.Errorf("pull %q, %v", id, err)
	}
	stop()
	r.Look(t.Context())
	if _, err := r.Pull(t.Context(), cri.PullRequest{Image: "a:1"}); len(reason.From(err)) == 0 {
		t.Errorf("no runtime answers: %v", err)
	}
}
