package fakecri

import (
	"context"
	"errors"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Machine gives access to the containers of a Node. The methods are called concurrently. Callers must not modify
// returned values.
type Machine interface {
	// Sandboxes returns the Pod sandboxes, in any order.
	Sandboxes() []Sandbox
	// Containers returns all containers, including ended containers, in any order.
	Containers() []Container
	// Stop ends a running container, at the latest after the grace period, and returns when the container has ended.
	// If ctx ends, Stop returns, but the container still ends.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Exec runs a program in a running container, until the program ends or ctx ends. If the program cannot be started,
	// Exec returns an error.
	Exec(ctx context.Context, id string, argv []string) (out, errOut []byte, code int32, err error)
}

// ErrNotFound is the error that a Machine or Images returns for an object that does not exist. The server's response
// then has the code NotFound.
var ErrNotFound = errors.New("not found")

// Sandbox is the sandbox in which a Pod's containers run.
type Sandbox struct {
	ID, Name, Namespace, UID string
	Attempt                  uint32
	Created                  time.Time
	Ended                    bool
	IP                       string
	// Labels and Annotations are the Pod's labels and annotations, with the kubelet's labels added.
	Labels, Annotations map[string]string
}

// Container is an instance of a Pod's container.
type Container struct {
	ID        string
	SandboxID string
	Name      string
	// Attempt is the number of earlier instances.
	Attempt uint32
	// Created, Started and Finished are zero if not yet.
	Created, Started, Finished time.Time
	ExitCode                   int32
	// Reason and Message explain why the container has ended; an empty Reason is derived from the exit code.
	Reason, Message string
	// Image is the image's name in the Pod. ImageID is the ID of the image to which the name was resolved.
	Image, ImageID string
	// Labels and Annotations are set by the kubelet.
	Labels, Annotations map[string]string
	// Env are the variables set by the Pod, and Argv is the command line.
	Env  []Variable
	Argv []string
}

// Variable is an environment variable.
type Variable struct{ Name, Value string }

// State returns the state of the container: created, running or exited.
func (c *Container) State() runtimeapi.ContainerState {
	switch {
	case !c.Finished.IsZero():
		return runtimeapi.ContainerState_CONTAINER_EXITED
	case !c.Started.IsZero():
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	default:
		return runtimeapi.ContainerState_CONTAINER_CREATED
	}
}

// Images is the image store of a Node. The methods are called concurrently. Callers must not modify returned values.
type Images interface {
	// List returns the images, in any order.
	List() []Image
	// Pull pulls an image from a registry and returns the image's ID. name is the image's name as in the request.
	Pull(ctx context.Context, name string, auth *Auth) (id string, err error)
	// Remove removes the image with an ID, with all its names.
	Remove(id string) error
	// Used returns the disk space that all images use.
	Used() (bytes, inodes uint64)
}

// Image is a stored image.
type Image struct {
	// ID is the digest of the image configuration.
	ID string
	// Tags and Digests are the full names of the image.
	Tags, Digests []string
	Size          uint64
	Pinned        bool
}

// Auth is the credential of a pull.
type Auth struct {
	Username, Password string
	// Auth is Username and Password, base64-encoded as in a Docker configuration.
	Auth          string
	ServerAddress string
	IdentityToken string
	RegistryToken string
}
