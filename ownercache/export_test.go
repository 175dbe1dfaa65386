package ownercache

// EnqueueController is for the tests of what wakes an owner.
var EnqueueController = enqueueController
