#pragma once

// Symbols are hidden unless marked: what is marked is the public interface.
#define FOVEA_EXPORT __attribute__((visibility("default")))
