package manager

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// scrapers decides who may read metrics, by asking the API server with a TokenReview and a SubjectAccessReview.
// controller-runtime has such a filter too. But that filter's packages make the binary of each manager half as large
// again and cost 14 MiB of memory, even if the metrics are not secured.
type scrapers struct {
	tokens authenticationclient.TokenReviewsGetter
	access authorizationclient.SubjectAccessReviewsGetter
	// allowed contains the digests of the tokens that may read metrics.
	allowed *cache.LRUExpireCache
	// reviews contains a rate limiter for each client address, because each unknown token causes requests to the API
	// server.
	reviews *cache.LRUExpireCache
}

const (
	// rememberAllowed is how long a token may still read metrics after it was revoked.
	rememberAllowed = time.Minute
	reviewTimeout   = 10 * time.Second
	// reviewsPerSecond and reviewsAtOnce limit the reviews caused by an address. rememberAddress is how long the
	// limiter of an address is kept.
	reviewsPerSecond, reviewsAtOnce = 1, 20
	rememberAddress                 = time.Hour
)

// scrapersFilter is the filter for the servers of metrics, a [metricsserver.Options.FilterProvider].
func scrapersFilter(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	tokens, err := authenticationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client for token reviews: %w", err)
	}
	access, err := authorizationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client for access reviews: %w", err)
	}
	s := &scrapers{tokens: tokens, access: access, allowed: cache.NewLRUExpireCache(100), reviews: cache.NewLRUExpireCache(1000)}
	return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := s.check(r)
			refusal := refusedScrape{}
			switch {
			case err == nil:
				handler.ServeHTTP(w, r)
			case errors.As(err, &refusal):
				http.Error(w, refusal.Error(), refusal.status)
			default:
				log.Error(err, "It could not be found out who reads metrics")
				http.Error(w, "the API server could not be asked who you are", http.StatusInternalServerError)
			}
		}), nil
	}, nil
}

// refusedScrape is the error for a client that may not read metrics.
type refusedScrape struct {
	status int
	why    string
}

func (r refusedScrape) Error() string { return r.why }

// check returns nil if the caller may read the path, and a refusedScrape if the API server refuses. Any other error
// means that the API server gave no answer.
func (s *scrapers) check(r *http.Request) error {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || strings.TrimSpace(token) == "" {
		return refusedScrape{http.StatusUnauthorized, "a bearer token is needed"}
	}
	key := sha256.Sum256([]byte(r.Method + " " + r.URL.Path + " " + token))
	if _, ok := s.allowed.Get(key); ok {
		return nil
	}
	if !s.limiterOf(r).Allow() {
		return refusedScrape{http.StatusTooManyRequests, "too many tokens from one address"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	who, err := s.tokens.TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: strings.TrimSpace(token)},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token review: %w", err)
	}
	// The error in the status says why the token was not accepted.
	if !who.Status.Authenticated {
		return refusedScrape{http.StatusUnauthorized, "the API server does not know this token"}
	}
	if err := s.authorize(ctx, who.Status.User, strings.ToLower(r.Method), r.URL.Path); err != nil {
		return err
	}
	s.allowed.Add(key, nil, rememberAllowed)
	return nil
}

// limiterOf returns the rate limiter of the caller's address. Two concurrent first calls from the same address may get
// two limiters.
func (s *scrapers) limiterOf(r *http.Request) *rate.Limiter {
	address := hostOf(r.RemoteAddr)
	if known, ok := s.reviews.Get(address); ok {
		return known.(*rate.Limiter)
	}
	limiter := rate.NewLimiter(reviewsPerSecond, reviewsAtOnce)
	s.reviews.Add(address, limiter, rememberAddress)
	return limiter
}

func (s *scrapers) authorize(ctx context.Context, who authenticationv1.UserInfo, verb, path string) error {
	may, err := s.access.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: who.Groups, Extra: extra(who.Extra),
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("access review of %s: %w", who.Username, err)
	}
	if !may.Status.Allowed {
		return refusedScrape{http.StatusForbidden, fmt.Sprintf("%s may not %s %s", who.Username, verb, path)}
	}
	return nil
}

func extra(in map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	out := make(map[string]authorizationv1.ExtraValue, len(in))
	for name, values := range in {
		out[name] = authorizationv1.ExtraValue(values)
	}
	return out
}
