package fakecri

import (
	"context"
	"errors"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Machine is the containers of a Node. The methods are called concurrently. All returned values are read-only.
type Machine interface {
	// Sandboxes returns the sandboxes of the Pods, in any order.
	Sandboxes() []Sandbox
	// Containers returns all containers, ended ones too, in any order.
	Containers() []Container
	// Stop ends a running container, after the grace period at the latest, and returns after the end. The end of ctx ends
	// only the wait.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Exec runs a program in a running container, until the program or ctx ends. A program without a start is an error.
	Exec(ctx context.Context, id string, argv []string) (out, errOut []byte, code int32, err error)
}

// ErrNotFound is the error of a Machine or of Images about a missing object. The server answers with code NotFound.
var ErrNotFound = errors.New("not found")

// Sandbox is the surroundings of a Pod's containers.
type Sandbox struct {
	ID, Name, Namespace, UID string
	Attempt                  uint32
	Created                  time.Time
	Ended                    bool
	IP                       string
	// Labels and Annotations are the Pod's, with the labels of the kubelet.
	Labels, Annotations map[string]string
}

// Container is an instance of a Pod's container.
type Container struct {
	ID        string
	SandboxID string
	Name      string
	// Attempt is the number of earlier instances.
	Attempt uint32
	// Created, Started and Finished are zero until then.
	Created, Started, Finished time.Time
	ExitCode                   int32
	// Reason and Message explain the end; an empty Reason follows from the code.
	Reason, Message string
	// Image is the name in the Pod, and ImageID the resolved image.
	Image, ImageID string
	// Labels and Annotations are from the kubelet.
	Labels, Annotations map[string]string
	// Env are the variables from the Pod, and Argv is the program.
	Env  []Variable
	Argv []string
}

// Variable is an environment variable.
type Variable struct{ Name, Value string }

// State says how far the container has come.
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

// Images is the image store of a Node. The methods are called concurrently. All returned values are read-only.
type Images interface {
	// List returns the images, in any order.
	List() []Image
	// Pull gets an image from a registry and returns the ID. The name is as in the request.
	Pull(ctx context.Context, name string, auth *Auth) (id string, err error)
	// Remove removes the image with an ID, under all names.
	Remove(id string) error
	// Used returns the space taken by all images.
	Used() (bytes, inodes uint64)
}

// Image is a stored image.
type Image struct {
	// ID is the digest of the configuration.
	ID string
	// Tags and Digests are the full names.
	Tags, Digests []string
	Size          uint64
	Pinned        bool
}

// Auth is the credential of a pull.
type Auth struct {
	Username, Password string
	// Auth is Username and Password in the form of a Docker configuration.
	Auth          string
	ServerAddress string
	IdentityToken string
	RegistryToken string
}
