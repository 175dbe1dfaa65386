// Package imagestore answers the question: how do I test pulls of images without a registry? [Store] implements
// fakecri.Images with rules for image names: found or missing, public or with a password, large and slow.
package imagestore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/internal/imagename"
)

// Rule describes how registries respond to pulls of some images.
type Rule struct {
	// Prefix is a prefix of the images' full names, such as docker.io/library/app: or registry.example.org/.
	Prefix string
	// Missing means that no registry has the images.
	Missing bool
	// Username and Password are required for a pull. An identity token counts as a password without a username.
	Username, Password string
	// Digest is the digest of the manifest; if empty, the digest is derived from the name.
	Digest string
	// Bytes is the size of the image.
	Bytes uint64
	// Rate is the speed of a pull, in bytes per second; 0 means that a pull takes no time.
	Rate uint64
	// If Err is set, the pull fails with this error at its end.
	Err error
}

// Store is an image store in memory. Make a Store with New. The methods are safe for concurrent use.
type Store struct {
	clock clock.Clock

	mu     sync.Mutex
	rules  []Rule
	images []fakecri.Image
}

// New returns an empty store. The first rule that matches a name is used. Pulls of an image without a rule succeed.
// If c is nil, the real clock is used.
func New(c clock.Clock, rules ...Rule) *Store {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Store{clock: c, rules: rules}
}

// SetRules replaces the rules.
func (s *Store) SetRules(rules ...Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = rules
}

func (s *Store) rule(full string) Rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.rules, func(r Rule) bool { return strings.HasPrefix(full, r.Prefix) }); i >= 0 {
		return s.rules[i]
	}
	return Rule{}
}

// List implements fakecri.Images.
func (s *Store) List() []fakecri.Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.images)
}

// Used implements fakecri.Images.
func (s *Store) Used() (bytes, inodes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.images {
		bytes += s.images[i].Size
	}
	return bytes, uint64(len(s.images))
}

// Remove implements fakecri.Images.
func (s *Store) Remove(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images = slices.DeleteFunc(s.images, func(i fakecri.Image) bool { return i.ID == id })
	return nil
}

// Pull implements fakecri.Images.
func (s *Store) Pull(ctx context.Context, name string, auth *fakecri.Auth) (string, error) {
	full := imagename.Full(name)
	rule := s.rule(full)
	if err := rule.admit(full, auth); err != nil {
		return "", err
	}
	if rule.Missing {
		return "", fmt.Errorf("failed to resolve image: %s: %w", full, fakecri.ErrNotFound)
	}
	if rule.Rate > 0 {
		timer := s.clock.NewTimer(time.Duration(float64(rule.Bytes) / float64(rule.Rate) * float64(time.Second)))
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			return "", fmt.Errorf("failed to copy: %w", context.Cause(ctx))
		}
	}
	if rule.Err != nil {
		return "", rule.Err
	}
	return s.store(full, rule), nil
}

// Add stores an image without a pull, and returns the image's ID.
func (s *Store) Add(name string) string {
	full := imagename.Full(name)
	return s.store(full, s.rule(full))
}

// store records an image under a name. Names with the same manifest digest belong to the same image. If another image
// had the tag, the tag is removed from that image.
func (s *Store) store(full string, rule Rule) string {
	repository, digest, byDigest := strings.Cut(full, "@")
	if !byDigest {
		repository, digest = imagename.Repository(full), rule.Digest
	}
	if digest == "" {
		digest = digestOf(full)
	}
	id := digestOf("configuration of " + digest)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.images, func(i fakecri.Image) bool { return i.ID == id }) {
		s.images = append(s.images, fakecri.Image{ID: id, Size: rule.Bytes})
	}
	for n := range s.images {
		image := &s.images[n]
		// The slices are cloned, because other goroutines may read the old slices.
		tags, digests := slices.Clone(image.Tags), slices.Clone(image.Digests)
		if !byDigest {
			tags = slices.DeleteFunc(tags, func(tag string) bool { return tag == full })
		}
		if image.ID == id {
			if !byDigest {
				tags = sorted(append(tags, full))
			}
			digests = sorted(append(digests, repository+"@"+digest))
		}
		image.Tags, image.Digests = tags, digests
	}
	return id
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// admit checks the credential of a pull against the rule.
func (r *Rule) admit(full string, auth *fakecri.Auth) error {
	if r.Username == "" && r.Password == "" {
		return nil
	}
	host, _, _ := strings.Cut(full, "/")
	username, password, err := credential(auth, host)
	if err != nil {
		return err
	}
	if username != r.Username || password != r.Password {
		return fmt.Errorf("pull access denied, repository does not exist or may require authorization: %s: authorization failed", full)
	}
	return nil
}

// credential reads a credential as containerd does: a credential for another server is ignored, a password has priority
// over tokens, and a registry token is never used.
func credential(auth *fakecri.Auth, host string) (username, password string, err error) {
	if auth == nil {
		return "", "", nil
	}
	if auth.ServerAddress != "" {
		server, err := url.Parse(auth.ServerAddress)
		if err != nil {
			return "", "", fmt.Errorf("parse server address: %w", err)
		}
		if server.Host != host {
			return "", "", nil
		}
	}
	switch {
	case auth.Username != "":
		return auth.Username, auth.Password, nil
	case auth.IdentityToken != "":
		return "", auth.IdentityToken, nil
	case auth.Auth == "":
		return "", "", nil
	}
	decoded, err := base64.StdEncoding.DecodeString(auth.Auth)
	if err != nil {
		return "", "", fmt.Errorf("read the credential: %w", err)
	}
	username, password, ok := strings.Cut(string(decoded), ":")
	if !ok {
		return "", "", errors.New("read the credential: invalid decoded auth")
	}
	return username, password, nil
}
